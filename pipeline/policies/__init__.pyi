from .rules import Action as Action
from .rules import Decision as Decision
from .rules import PolicyRule as PolicyRule
from .rules import RuleSet as RuleSet
from .rules_file import read_rules as read_rules
