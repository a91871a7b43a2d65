from .cancellation import Passes as Passes
from .cancellation import is_failure_of_body as is_failure_of_body
from .cancellation import is_stray_cancellation as is_stray_cancellation
from .portal import PORTAL as PORTAL
from .wake_ups import EventLoop as EventLoop
from .wake_ups import Signal as Signal
from .wake_ups import get_event_loop as get_event_loop
