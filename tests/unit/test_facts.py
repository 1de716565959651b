"""The facts that texts state; the present is Wednesday, 14 June 2023, noon in Berlin."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everhold.facts.reading import read_statements
from everhold.facts.statement import Statement

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2023, 6, 14, 10, 0, tzinfo=UTC)


def extract_statements(text: str, speaker: str | None = "Alice") -> list[Statement]:
    return read_statements(text, speaker=speaker, now=NOW, zone=BERLIN)


def summarise(statements: list[Statement]) -> list[tuple[str, str, str]]:
    return [
        (statement.subject, f"{'not ' if statement.negated else ''}{statement.attribute}", statement.value)
        for statement in statements
    ]


SPOKEN_TEXTS = [
    ("I live in Chiang Mai.", [("alice", "lives_in", "Chiang Mai")]),
    ("i live in Bangkok now", [("alice", "lives_in", "Bangkok")]),
    ("I'm living in Oslo at the moment.", [("alice", "lives_in", "Oslo")]),
    ("I work at Acme as a nurse.", [("alice", "works_at", "Acme"), ("alice", "job", "nurse")]),
    ("I work for Northwind Labs.", [("alice", "works_at", "Northwind Labs")]),
    ("I work at a small bakery in Leeds.", [("alice", "works_at", "a small bakery")]),
    ("My name is Maria Lopez.", [("alice", "name", "Maria Lopez")]),
    ("My name's Tom.", [("alice", "name", "Tom")]),
    ("Call me Ace.", [("alice", "nickname", "Ace")]),
    ("My friends call me Bex.", [("alice", "nickname", "Bex")]),
    ("I'm 34 years old.", [("alice", "age", "34")]),
    ("I am 34.", [("alice", "age", "34")]),
    ("I just turned 30 last week!", [("alice", "age", "30")]),
    ("My birthday is on 3 May.", [("alice", "birthday", "3 May")]),
    ("I was born in Lisbon.", [("alice", "born_in", "Lisbon")]),
    ("I was born in 1990.", [("alice", "birth_year", "1990")]),
    ("I'm from Norway.", [("alice", "from_country", "Norway")]),
    ("I'm originally from the Netherlands.", [("alice", "from_country", "the Netherlands")]),
    ("I'm married to Ben.", [("alice", "relationship_status", "married"), ("alice", "married_to", "Ben")]),
    ("I'm single.", [("alice", "relationship_status", "single")]),
    ("I got married last June.", [("alice", "relationship_status", "married"), ("alice", "event", "got married")]),
    ("We got divorced in 2021.", [("alice", "relationship_status", "divorced"), ("alice", "event", "got divorced")]),
    ("I like coffee.", [("alice", "likes", "coffee")]),
    ("I love hiking in the mountains!", [("alice", "likes", "hiking in the mountains")]),
    ("I really enjoy baking bread.", [("alice", "likes", "baking bread")]),
    ("I hate olives.", [("alice", "dislikes", "olives")]),
    ("I can't stand loud music.", [("alice", "dislikes", "loud music")]),
    ("I don't like coffee.", [("alice", "not likes", "coffee")]),
    ("I don't like coffee any more.", [("alice", "not likes", "coffee")]),
    ("I no longer live in Paris.", [("alice", "not lives_in", "Paris")]),
    ("I used to live in Paris.", [("alice", "not lives_in", "Paris")]),
    ("I quit my job at Acme.", [("alice", "not works_at", "Acme")]),
    ("I'm not vegetarian anymore.", [("alice", "not diet", "vegetarian")]),
    ("My favourite colour is green.", [("alice", "favourite_colour", "green")]),
    ("My favorite band is The Blue Lamps.", [("alice", "favourite_band", "The Blue Lamps")]),
    ("I'm allergic to peanuts.", [("alice", "allergic_to", "peanuts")]),
    ("I have a dog named Rex.", [("alice", "owns_pet", "a dog named Rex")]),
    ("We have two cats.", [("alice", "owns_pet", "two cats")]),
    (
        "I adopted a puppy called Milo last week.",
        [("alice", "owns_pet", "a puppy called Milo"), ("alice", "event", "adopted a puppy called Milo")],
    ),
    ("I speak Thai and English.", [("alice", "speaks", "Thai"), ("alice", "speaks", "English")]),
    ("I'm studying biology at Uppsala University.", [("alice", "studies", "biology")]),
    ("I'm a software engineer.", [("alice", "job", "software engineer")]),
    ("I'm a nurse at Mercy Hospital.", [("alice", "job", "nurse"), ("alice", "works_at", "Mercy Hospital")]),
    ("My sister Anna lives in Oslo.", [("alice's sister", "lives_in", "Oslo")]),
    ("Anna is my sister.", [("alice", "sibling", "Anna")]),
    ("My sister's name is Anna.", [("alice", "sibling", "Anna")]),
    ("My sister is a doctor.", [("alice's sister", "job", "doctor")]),
    ("I have a brother named Leo.", [("alice", "sibling", "Leo")]),
    ("I moved to Lisbon last May.", [("alice", "lives_in", "Lisbon"), ("alice", "event", "moved to Lisbon")]),
    ("I've lived in Rome since 2019.", [("alice", "lives_in", "Rome")]),
    ("I lived in Bangkok in 2015.", [("alice", "lived_in", "Bangkok")]),
    (
        "I started working at Globex in March.",
        [("alice", "works_at", "Globex"), ("alice", "event", "started working at Globex")],
    ),
    ("I joined Initech two weeks ago.", [("alice", "works_at", "Initech"), ("alice", "event", "joined Initech")]),
    ("I'm going to visit Oslo next week.", [("alice", "plan", "visit Oslo")]),
    ("I'm planning to learn the cello.", [("alice", "plan", "learn the cello")]),
    ("I will run a marathon in October.", [("alice", "plan", "run a marathon")]),
    ("I'm flying to Rome tomorrow.", [("alice", "plan", "flying to Rome")]),
    ("I'm going to Paris next weekend.", [("alice", "plan", "go to Paris")]),
    ("I have a dentist appointment on Friday.", [("alice", "plan", "a dentist appointment")]),
    ("Yesterday I went to the beach with Leo.", [("alice", "event", "went to the beach with Leo")]),
    ("Last week, I visited Kyoto.", [("alice", "event", "visited Kyoto")]),
    ("I graduated from Leeds University in 2014.", [("alice", "event", "graduated from Leeds University")]),
    ("I bought a red bike.", [("alice", "event", "bought a red bike")]),
    ("I drive a Toyota Corolla.", [("alice", "car", "Toyota Corolla")]),
    ("My email is ann.example@example.org", [("alice", "email", "ann.example@example.org")]),
    ("My phone number is +66 81 555 0101.", [("alice", "phone", "+66 81 555 0101")]),
    ("I don't eat pork.", [("alice", "not eats", "pork")]),
    ("I live in Rome, but I might move to Milan.", [("alice", "lives_in", "Rome")]),
    ("I live in Rome and work at Acme.", [("alice", "lives_in", "Rome"), ("alice", "works_at", "Acme")]),
    (
        "My brother Leo loves chess and he works at Initech.",
        [("alice's brother", "likes", "chess"), ("alice's brother", "works_at", "Initech")],
    ),
    ("I prefer tea to coffee.", [("alice", "prefers", "tea to coffee")]),
    ("I'm vegan.", [("alice", "diet", "vegan")]),
    ("I've been a vegetarian since 2018.", [("alice", "diet", "vegetarian")]),
    ("My dog's name is Biscuit.", [("alice", "owns_pet", "dog Biscuit")]),
    ("I have three kids.", [("alice", "children", "three kids")]),
    ("Hi Bob, I'm from Spain originally.", [("alice", "from_country", "Spain")]),
    ("I'm a big fan of jazz.", [("alice", "likes", "jazz")]),
    ("I'm afraid of spiders.", [("alice", "afraid_of", "spiders")]),
    ("Well, actually I live in Berlin these days.", [("alice", "lives_in", "Berlin")]),
    ("I have asthma.", [("alice", "condition", "asthma")]),
    ("I grew up in Naples.", [("alice", "grew_up_in", "Naples")]),
    ("Ben works at Globex.", [("ben", "works_at", "Globex")]),
    ("I love my job.", [("alice", "likes", "my job")]),
    ("I'm dating Chris.", [("alice", "partner", "Chris")]),
    ("I've been working at Acme since 2020.", [("alice", "works_at", "Acme")]),
    ("I'm retired.", [("alice", "job", "retired")]),
    ("Ben and I went to Vienna in April.", [("alice", "event", "went to Vienna")]),
    ("My sister is coming over tomorrow.", [("alice's sister", "plan", "coming over")]),
    ("My sister is Russian.", [("alice's sister", "nationality", "Russian")]),
    ("I hate Mondays.", [("alice", "dislikes", "Mondays")]),
    ("I'm a doctor now.", [("alice", "job", "doctor")]),
    ("I'm not a doctor.", [("alice", "not job", "doctor")]),
    ("I am not from Spain.", [("alice", "not from_country", "Spain")]),
    ("I left Rome yesterday.", [("alice", "event", "left Rome")]),
    ("I quit smoking last year.", [("alice", "event", "quit smoking")]),
    ("I left Acme in March.", [("alice", "event", "left Acme")]),
    ("I left Acme and started at Globex.", [("alice", "works_at", "Globex")]),
    ("I've left Acme to join Globex.", [("alice", "works_at", "Globex")]),
    ("I work as a nurse at Acme.", [("alice", "works_at", "Acme"), ("alice", "job", "nurse")]),
    (
        "I got engaged to Chris last weekend.",
        [
            ("alice", "relationship_status", "engaged"),
            ("alice", "partner", "Chris"),
            ("alice", "event", "got engaged to Chris"),
        ],
    ),
    ("I ran 5 km this morning and it was hard.", [("alice", "event", "ran 5 km")]),
    ("I met Anna in 2019 at a conference in Oslo.", [("alice", "event", "met Anna at a conference in Oslo")]),
    ("We went camping last weekend with the kids.", [("alice", "event", "went camping with the kids")]),
    ("Anna visited Kyoto last month.", [("anna", "event", "visited Kyoto")]),
    (
        "My brother got married in 2020.",
        [("alice's brother", "relationship_status", "married"), ("alice's brother", "event", "got married")],
    ),
    (
        "I started a new job at Hooli last month.",
        [("alice", "works_at", "Hooli"), ("alice", "event", "started a new job at Hooli")],
    ),
    ("I'm moving to Denver in August.", [("alice", "plan", "moving to Denver")]),
    ("I'll be in Berlin next week.", [("alice", "plan", "be in Berlin")]),
    ("I live in Oslo, Norway.", [("alice", "lives_in", "Oslo, Norway")]),
    ("I live in New York City with my wife.", [("alice", "lives_in", "New York City")]),
    ("I'm from the US.", [("alice", "from_country", "the US")]),
    ("I'm 6 feet tall.", [("alice", "height", "6 feet")]),
    ("I'm allergic to cats and pollen.", [("alice", "allergic_to", "cats"), ("alice", "allergic_to", "pollen")]),
    ("Please call me Tim.", [("alice", "nickname", "Tim")]),
    ("Do I like tea? I like tea.", [("alice", "likes", "tea")]),
    ("I live in Oslo. Do you like it?", [("alice", "lives_in", "Oslo")]),
    (
        "I moved from Oslo to Rome in 2020.",
        [("alice", "lives_in", "Rome"), ("alice", "event", "moved from Oslo to Rome")],
    ),
    ("My wife and I live in Rome.", [("alice", "lives_in", "Rome")]),
    ("I love swimming, it calms me down.", [("alice", "likes", "swimming")]),
    (
        "I like tea, coffee and juice.",
        [("alice", "likes", "tea"), ("alice", "likes", "coffee"), ("alice", "likes", "juice")],
    ),
    ("Since 2019 I have lived in Oslo.", [("alice", "lives_in", "Oslo")]),
    ("I'm learning Spanish.", [("alice", "studies", "Spanish")]),
    ("I am going to study law next year.", [("alice", "plan", "study law")]),
    ("I just got back from Rome yesterday.", [("alice", "event", "got back from Rome")]),
    ("I've been vegan for two years.", [("alice", "diet", "vegan")]),
    ("I don't have a dog.", [("alice", "not owns_pet", "a dog")]),
    ("I no longer work at Acme.", [("alice", "not works_at", "Acme")]),
    ("I used to work at Acme as a nurse.", [("alice", "not works_at", "Acme"), ("alice", "not job", "nurse")]),
    ("I used to like coffee.", [("alice", "not likes", "coffee")]),
    ("My birthday is May 3rd, 1990.", [("alice", "birthday", "May 3rd, 1990")]),
    ("I prefer to work alone.", [("alice", "prefers", "to work alone")]),
    ("My dog Rex is sick.", [("alice", "owns_pet", "dog Rex")]),
    ("My cat is called Momo.", [("alice", "owns_pet", "cat Momo")]),
    ("Ben's favourite colour is red.", [("ben", "favourite_colour", "red")]),
    ("I'm an engineer at a startup", [("alice", "job", "engineer"), ("alice", "works_at", "a startup")]),
    ("I drive an Outback.", [("alice", "car", "Outback")]),
    ("I live in Oslo but work in Bergen.", [("alice", "lives_in", "Oslo")]),
]


@pytest.mark.parametrize(("text", "expected"), SPOKEN_TEXTS, ids=[text for text, _ in SPOKEN_TEXTS])
def test_a_statement_of_a_speaker_is_about_the_right_person(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert summarise(extract_statements(text)) == expected


NOTES = [
    ("Prefers dark roast coffee", [("user", "prefers", "dark roast coffee")]),
    ("Lives in Bangkok", [("user", "lives_in", "Bangkok")]),
    ("User lives in Bangkok", [("user", "lives_in", "Bangkok")]),
    ("The user works at Acme", [("user", "works_at", "Acme")]),
    ("Alice works at Acme as a nurse", [("alice", "works_at", "Acme"), ("alice", "job", "nurse")]),
    ("Allergic to shellfish", [("user", "allergic_to", "shellfish")]),
    ("Name: Alice", [("user", "name", "Alice")]),
    ("Favourite colour: blue", [("user", "favourite_colour", "blue")]),
    ("Favorite food is ramen", [("user", "favourite_food", "ramen")]),
    ("Is vegetarian", [("user", "diet", "vegetarian")]),
    ("Doesn't like meetings before noon", [("user", "not likes", "meetings before noon")]),
    ("User's favourite tea is oolong", [("user", "favourite_tea", "oolong")]),
    ("Alice's sister Mia lives in Oslo.", [("alice's sister", "lives_in", "Oslo")]),
    ("Speaks French", [("user", "speaks", "French")]),
    ("Birthday: 3 May", [("user", "birthday", "3 May")]),
    ("Alice moved to Lisbon in May 2023", [("alice", "lives_in", "Lisbon"), ("alice", "event", "moved to Lisbon")]),
    ("Married to Ben", [("user", "relationship_status", "married"), ("user", "married_to", "Ben")]),
    (
        "Lives in Oslo, works at Acme, and likes tea",
        [("user", "lives_in", "Oslo"), ("user", "works_at", "Acme"), ("user", "likes", "tea")],
    ),
]


@pytest.mark.parametrize(("text", "expected"), NOTES, ids=[text for text, _ in NOTES])
def test_a_note_without_a_speaker_is_about_the_user(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert summarise(extract_statements(text, speaker=None)) == expected


TEXTS_WITHOUT_FACTS = [
    "Do you live in Rome?",
    "I'm living in Paris for three weeks.",
    "We broke up the fight.",
    "I left the party and started at the buffet.",
    "Where do you live",
    "If I lived in Rome I would be happy.",
    "I wish I worked at Acme.",
    "I would like to live in Oslo.",
    "I'd love a dog.",
    "I might move to Lisbon.",
    "I'm tired.",
    "I'm so happy!",
    "I'm a bit hungry.",
    "I'm a mess today.",
    "I work from home.",
    "I live in hope.",
    "I work at night.",
    "I love it.",
    "I love that!",
    "I like your idea.",
    "I love you.",
    "Anna said she lives in Oslo.",
    '"I live in Rome," he said.',
    "I think Ben works at Globex.",
    "Thanks a lot!",
    "That sounds great.",
    "What is your name?",
    "Can you help me?",
    "I'm going to bed.",
    "I'm going to be fine.",
    "I'll see you there.",
    "I'm not sure.",
    "I'm here.",
    "I'm 5 minutes away.",
    "I'm in a hurry.",
    "It is raining.",
    "Have a nice day!",
    "Is it vegan?",
    "Maybe I will go to Oslo next week.",
    "I have a question.",
    "I have to go.",
    "I have no idea.",
    "The server is in Frankfurt.",
    "I'm sorry.",
    "I feel like I live in Rome.",
    "Let me know.",
    "I like how it looks.",
    "I live for the weekend.",
    "Imagine I live in Paris.",
    "I'm working on it.",
    "I've been to the shop.",
    "I want to live in Oslo.",
    "I need a nurse.",
    "I'm a huge fan",
    "I was tired yesterday.",
    "I told you yesterday.",
    "He lives in Oslo.",
    "She likes tea.",
    "They work at Acme.",
    "You live in Rome.",
    "It works at night.",
    "I hope to visit Oslo next year.",
    "I should call my sister tomorrow.",
    "I work hard.",
    "I study hard.",
    "I have been thinking.",
    "I'm from the future.",
    "I'm a terrible singer.",
    "I almost moved to Paris.",
    "Supposedly Ben works at Globex.",
    "I can't believe it.",
    "I can't wait to visit.",
    "I love the way you think.",
    "I'm okay.",
    "I am the best.",
    "My bad.",
    "My point is that we should wait.",
    "I like to think so.",
    "Python is my go-to.",
    "This is my sister.",
    "I thought I lived in Rome.",
    "The weather is nice today.",
    "I had fun yesterday!",
    "My name is on the list.",
    "My car is at the garage.",
    "My job is killing me.",
    "My favourite is the blue one.",
    "My favourite thing about you is that smile.",
    "My sister is happy.",
    "My mom is great.",
    "Anna is tired.",
    "Anna is great at chess.",
    "Rome is in Italy.",
    "London is a city.",
    "Python is a language.",
    "Acme is hiring.",
    "I work in Excel a lot.",
    "I work at 5 tomorrow.",
    "I work with Anna.",
    "I like that Anna works at Acme.",
    "I hate to say goodbye.",
    "I like it when it rains.",
    "I love how green it is.",
    "I'm a nurse's son.",
    "I'm no doctor.",
    "I have never lived in Rome.",
    "I haven't moved to Rome.",
    "I never liked coffee.",
    "I didn't move to Rome last year.",
    "I did not like the film.",
    "I won't go to Rome next week.",
    "I'm not going to Rome next week.",
    "I have two dogs to walk tomorrow.",
    "I have a cat-shaped mug.",
    "I bought it yesterday.",
    "I went there last week.",
    "I finished the report in 3 days.",
    "I will call you tomorrow.",
    "I think I live in Oslo.",
    "I'm learning to cook.",
    "I'm thinking of moving to Rome next year.",
    "As a nurse, I work nights.",
    "I really love this song!",
    "I prefer that.",
    "I study at night.",
    "I'm single-handedly doing this.",
    "I'm engaged in a debate.",
    "I'm married to my work.",
    "I am vegan-curious.",
    "I speak for everyone.",
    "I hate when people lie.",
]


@pytest.mark.parametrize("text", TEXTS_WITHOUT_FACTS)
def test_a_text_that_states_nothing_has_no_facts(text: str) -> None:
    assert extract_statements(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I live in Chiang Mai.", "Alice lives in Chiang Mai."),
        ("I don't like coffee.", "Alice does not like coffee."),
        ("I don't like coffee any more.", "Alice no longer likes coffee."),
        ("I'm not vegetarian anymore.", "Alice is no longer vegetarian."),
        ("My sister Anna lives in Oslo.", "Alice's sister Anna lives in Oslo."),
        ("I love my job.", "Alice likes their job."),
        ("I'm an engineer.", "Alice works as an engineer."),
        ("Yesterday I went to the beach with Leo.", "Alice went to the beach with Leo on 13 June 2023."),
        ("I visited Kyoto last month.", "Alice visited Kyoto in May 2023."),
        ("I visited Kyoto in 2019.", "Alice visited Kyoto in 2019."),
        ("I visited Kyoto last week.", "Alice visited Kyoto between 5 June 2023 and 11 June 2023."),
        ("I'm planning to learn the cello.", "Alice plans to learn the cello."),
        ("I'm flying to Rome tomorrow.", "Alice plans on flying to Rome on 15 June 2023."),
    ],
)
def test_the_sentence_of_a_fact_is_understood_without_its_context(text: str, expected: str) -> None:
    assert extract_statements(text)[-1].text == expected


@pytest.mark.parametrize(
    ("text", "kind", "exclusive"),
    [
        ("I live in Oslo.", "fact", True),
        ("I speak Thai.", "fact", False),
        ("I like tea.", "preference", False),
        ("My favourite tea is oolong.", "preference", True),
        ("I'm going to visit Oslo next week.", "plan", False),
        ("Yesterday I painted the kitchen.", "episodic", False),
        ("Anna is my sister.", "entity", False),
    ],
)
def test_each_attribute_has_its_kind_and_may_be_exclusive(text: str, kind: str, exclusive: bool) -> None:
    (statement,) = extract_statements(text)
    assert (statement.kind, statement.exclusive) == (kind, exclusive)


def test_an_event_and_a_plan_carry_their_time() -> None:
    (event,) = extract_statements("I painted the kitchen on 3 May 2023.")
    assert event.occurred is not None
    assert event.occurred.start == datetime(2023, 5, 2, 22, tzinfo=UTC)
    (plan,) = extract_statements("I will run a marathon in October.")
    assert plan.occurred is not None
    assert plan.occurred.start == datetime(2023, 9, 30, 22, tzinfo=UTC)


def test_a_fact_that_is_true_since_a_time_has_that_time() -> None:
    since = datetime(2018, 12, 31, 23, tzinfo=UTC)
    assert extract_statements("I've lived in Rome since 2019.")[0].valid_from == since
    assert extract_statements("Since 2019 I have lived in Rome.")[0].valid_from == since
    assert extract_statements("I moved to Lisbon in 2019.")[0].valid_from == since
    assert extract_statements("I live in Rome.")[0].valid_from is None


def test_each_statement_has_its_position_in_the_text() -> None:
    text = "Hi Bob! I live in Rome and work at Acme. How are you?"
    assert [text[slice(*statement.span)] for statement in extract_statements(text)] == [
        "I live in Rome",
        "work at Acme",
    ]


# Words that rules look for, to be mixed.
POOL = (
    "I|I'm|my|sister|Anna|is|not|a|nurse|at|Acme|live|in|Rome|,|and|was|born|have|been|never|no|longer|used|to|like"
    "|'s|don't|can't|.|favourite|name|since|2019|next|week|moved|going|dog|will|User's|:"
)


@given(
    st.lists(st.sampled_from(POOL.split("|")), max_size=14),
    st.sampled_from([None, "Alice"]),
)
def test_any_mixture_of_words_is_read_without_failing(words: list[str], speaker: str | None) -> None:
    text = " ".join(words)
    for statement in extract_statements(text, speaker):
        assert statement.value
        assert statement.text.endswith(".")
        assert 0 <= statement.span[0] < statement.span[1] <= len(text)
