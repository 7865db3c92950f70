"""The texts that are measured: fixed, in our own words, the same on every machine.

``COPY`` asks for answers that repeat much of the prompt and ``EDIT`` for the prompt with changes all over it,
which is where looking up pays; ``CHAT`` asks for new text. ``TUNING_COPY`` and ``TUNING_CHAT`` choose K and
nothing else, so that no K is chosen on the texts it is judged by.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.context import Message


@dataclass(frozen=True, slots=True)
class Prompt:
    """One conversation to answer."""

    name: str
    messages: tuple[Message, ...]


def _ask(name: str, *said: str) -> Prompt:
    """A conversation: user and assistant in turn, the user last."""
    roles = ("user", "assistant") * len(said)
    return Prompt(name, tuple(Message(role, text) for role, text in zip(roles, said, strict=False)))


_ACCOUNT = """\
```python
class Account:
    def __init__(self, owner, balance):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        self.balance = self.balance + amount
        return self.balance

    def withdraw(self, amount):
        if amount <= 0:
            raise ValueError("amount must be positive")
        if amount > self.balance:
            raise ValueError("not enough money")
        self.balance = self.balance - amount
        return self.balance
```"""

_STACK = """\
```python
class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("the stack is empty")
        return self.items.pop()

    def peek(self):
        if not self.items:
            raise IndexError("the stack is empty")
        return self.items[-1]

    def size(self):
        return len(self.items)
```"""

_TIMER = """\
```python
class Timer:
    def __init__(self, name):
        self.name = name
        self.seconds = 0
        self.running = False

    def start(self):
        if self.running:
            raise RuntimeError("the timer is running")
        self.running = True

    def stop(self):
        if not self.running:
            raise RuntimeError("the timer is not running")
        self.running = False

    def reset(self):
        self.seconds = 0
        self.running = False
```"""

_HARBOUR = (
    "The harbour of Port Elm lies at the mouth of a slow brown river. Every morning the ferry leaves the "
    "north quay at seven and crosses to the island of Marl in forty minutes. It carries post, bread, two "
    "cars and as many people as want to come. In winter the crossing is cancelled when the wind is above "
    "force eight, and the islanders wait. The lighthouse on the western rock was built in 1871 and has been "
    "empty since 1988, when its lamp was made automatic. Gulls nest on its stairs now."
)

_GARDEN = (
    "The garden behind the mill has four beds. In the first bed grow the herbs, sage and thyme and a little "
    "mint. In the second bed stand the beans, tied to long poles. In the third bed are the pumpkins, and "
    "they cover the path. The fourth bed is empty this year and rests. Water comes from the stream through "
    "a wooden pipe. The gardener opens it at six in the morning and closes it at eight. Nobody walks on the "
    "beds."
)

_MUSEUM = (
    "The museum of clocks has three rooms. In the first room stand the tower clocks, made of iron and "
    "taller than a man. In the second room hang the wall clocks, and all of them strike at noon. In the "
    "third room lie the watches, each under its own glass. The oldest watch was made in 1580 and still runs "
    "for an hour. Visitors may wind it on the first Monday of the month. The museum is open from ten to "
    "five."
)

_BASKET = """\
```python
class Basket:
    def __init__(self):
        self.items = {}

    def add(self, name, price):
        if price < 0:
            raise ValueError("price must not be negative")
        self.items[name] = price

    def remove(self, name):
        if name not in self.items:
            raise KeyError("there is no such item")
        del self.items[name]

    def total(self):
        return sum(self.items.values())

    def most_expensive(self):
        return max(self.items, key=self.items.get)
```"""

_BAKERY = (
    "The bakery on the corner opens at six. Erly in the morning the smell of fresh bred fills the hole "
    "street, and the first peple wait at the door. The baker has worked their for thirty years and nows "
    "every one of them by name. On Saturdays he bakes a cake with appels, and it is always gone befor "
    "noon. In the afternoon the shop is quite, and his dauter does the accounts at the small table near "
    "the window."
)

_MEETING = (
    "On Monday the club meets in the small hall at seven. Anna brings the chairs, and Peter opens the "
    "door. On Monday there is also tea, which Anna makes in the kitchen. Whoever comes late on Monday has "
    "to stand, because Peter counts the chairs before. The next talk on Monday is about bees, and Anna "
    "has asked a man who keeps them. Peter will show his pictures."
)

COPY = (
    _ask(
        "rename-account",
        "Write a Python class for a bank account.",
        _ACCOUNT,
        "Rename the class to BankAccount. Write out the whole class again.",
    ),
    _ask(
        "rename-stack",
        "Write a Python class for a stack.",
        _STACK,
        "Rename the class to Pile. Write out the whole class again.",
    ),
    _ask("repeat-harbour", f"Repeat the following text exactly, word for word.\n\n{_HARBOUR}"),
    _ask("repeat-garden", f"Repeat the following text exactly, word for word.\n\n{_GARDEN}"),
)

EDIT = (
    _ask(
        "edit-basket",
        "Write a Python class for a shopping basket.",
        _BASKET,
        "Rename the class to Cart and the method total to cost. Write out the whole class again.",
    ),
    _ask(
        "correct-bakery",
        "Correct the spelling.\n\nThe shop closes at six. Erly in the morning nobody nows why it is quite.",
        "The shop closes at six. Early in the morning nobody knows why it is quiet.",
        f"Correct the spelling.\n\n{_BAKERY}",
    ),
    _ask(
        "change-meeting",
        "Write about the meeting of the club.",
        _MEETING,
        "The meeting is on Friday now. Write out the whole text again, with Friday in the place of Monday.",
    ),
)
"""Worded so that even the built-in model makes an edit of them; what it writes was read, not timed."""

CHAT = (
    _ask("story", "Tell me a story about a brave knight who is afraid of the dark."),
    _ask("rain", "Explain to a child where the rain comes from and where it goes."),
    _ask("trip", "I have two days in a small town by the sea, in winter. What should I do there?"),
    _ask("letter", "Write a letter to a neighbour who plays the drums every night. Stay friendly."),
)

TUNING_COPY = (
    _ask(
        "rename-timer",
        "Write a Python class for a timer.",
        _TIMER,
        "Rename the class to Stopwatch. Write out the whole class again.",
    ),
    _ask("repeat-museum", f"Repeat the following text exactly, word for word.\n\n{_MUSEUM}"),
)

TUNING_CHAT = (
    _ask("bread", "How do I bake bread without a machine? Tell me step by step."),
    _ask("robot", "Write a short story about a robot that wants to become a gardener."),
)

ALL = (*COPY, *EDIT, *CHAT, *TUNING_COPY, *TUNING_CHAT)
