from .policy_file import read_policy as read_policy
from .policy_file import read_rules as read_rules
from .relay_policy import RelayPolicy as RelayPolicy
from .rules import Action as Action
from .rules import Decision as Decision
from .rules import PolicyRule as PolicyRule
from .rules import RuleSet as RuleSet
