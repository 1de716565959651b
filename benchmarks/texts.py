"""Make sentences like those that people tell an agent, and questions about them. They are the same in every run."""

import random
from collections.abc import Iterator

SHORTEST, LONGEST = 40, 120


def _split_words(text: str) -> list[str]:
    return text.split()


_FIRST_NAMES = _split_words("""
Alma Amara Anders Anong Arjun Beatriz Bilal Bogdan Camille Carlos Chidi Chloe Daichi Daniela Dmitri Elif Emeka
Esther Fatima Felix Freya Giulia Goran Hana Hassan Helga Hiroshi Ines Ingrid Isaac Ivana Jamal Joanna Jorge Kamala
Katya Kenji Kofi Lars Leila Liam Lucia Magnus Malee Marek Mei Mikael Mina Nadia Nikhil Noor Olga Omar Paloma Pavel
Pim Priya Quentin Rania Ravi Rosa Ruben Sakura Samir Sanna Selma Sofia Somchai Stefan Sunita Tariq Tessa Thandi
Tomas Uma Vera Viktor Wanjiru Wei Xavier Yara Yusuf Zainab Zoltan
""")
_FAMILY_NAMES = _split_words("""
Adeyemi Almeida Andersson Bakker Banerjee Bauer Castillo Chen Dubois Eriksen Farouk Fernandes Fischer Garcia Haddad
Hoffmann Ishikawa Ivanov Jansen Kaplan Kimura Kowalski Kumar Larsen Lindqvist Lopez Mbeki Mehta Moreau Nakamura
Novak Okafor Olsen Ortega Park Patel Petrov Rossi Santos Schmidt Silva Singh Suzuki Tanaka Torres Vasquez Virtanen
Weber Yilmaz Zhang
""")
_PLACES = _split_words("""
Accra Amsterdam Athens Auckland Bangkok Barcelona Bergen Berlin Bogota Bologna Boston Brisbane Budapest Cairo
Calgary Chiang-Mai Copenhagen Dakar Denver Dublin Edinburgh Fukuoka Geneva Hamburg Hanoi Helsinki Istanbul Jaipur
Kigali Krakow Kyoto Lagos Lima Lisbon Ljubljana Lyon Madrid Malmo Marseille Melbourne Milan Montreal Mumbai Nairobi
Naples Oslo Osaka Porto Prague Quito Reykjavik Riga Rotterdam Santiago Seoul Seville Singapore Tallinn Tampere
Toronto Turin Utrecht Valencia Vancouver Vienna Vilnius Warsaw Zagreb Zurich
""")
_THINGS = _split_words("""
accordion aquarium atlas backpack banjo barometer bicycle binoculars bookshelf bracelet briefcase camera canoe
carpet cello chainsaw chandelier chessboard clarinet compass cradle dehumidifier drone dulcimer easel
espresso-machine fiddle fishing-rod flashlight flute fountain-pen freezer furnace generator globe gramophone guitar
hammock harmonica headphones helmet hourglass kayak kettle keyboard kiln ladder lamp lantern laptop lawnmower loom
mandolin microscope mirror motorbike oboe oven paddle passport piano pillow printer projector quilt radiator
raincoat record-player router rucksack sailboat saxophone scooter sewing-machine skateboard sketchbook sled
snowboard sofa stroller suitcase surfboard synthesizer tablet teapot telescope tent thermostat toolbox tractor
treadmill tripod trombone trumpet typewriter ukulele umbrella vacuum violin wardrobe watch wheelbarrow wheelchair
wrench
""")
_TOPICS = _split_words("""
algebra allergies astronomy backups baking beekeeping billing birdwatching botany budgets carpentry ceramics
chemistry climbing compilers contracts crosswords databases debugging deployments diving drawing embroidery espresso
fencing fermentation forecasts gardening genealogy geology glassblowing grammar harvests hiking history hydroponics
insurance invoices jazz journalism kerning knitting latency leases licences linguistics logistics magnetism
marathons meditation mortgages mushrooms mythology navigation negotiation neuroscience nutrition opera origami
passwords payroll philosophy photography physics pilates plumbing poetry pottery pricing puzzles recycling
refactoring robotics rowing salsa sculpture security sewing shipping skiing sourdough statistics surfing taxes
telemetry theatre translation typing vaccines vineyards volleyball weaving welding woodworking yoga zoning
""")
_DAYS = _split_words("""
Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""")
_MONTHS = _split_words("""
January February March April May June July August September October November December
""")
_FEELINGS = _split_words("""
adores avoids dislikes distrusts enjoys envies fears loves mentions mocks praises prefers recommends regrets
respects studies teaches
""")
_ACTS = _split_words("""
borrowed bought broke cleaned delivered designed found inherited lent lost packed painted patented photographed
pawned repaired rented returned sold stored traded upgraded weighed wrapped
""")

_SENTENCES = (
    "{name} {act} a {thing} in {place} for {number} euros on {day}",
    "{name} {feeling} {topic} and talks about {other_topic} every {day} evening",
    "The {thing} that {name} {act} is kept in room {number} of the {place} office",
    "{name} moved from {place} to {other_place} in {month} {year} to work on {topic}",
    "Invoice {number} for the {thing} was sent to {name} in {place} on {month} {small}",
    "{name} is allergic to peanuts and {feeling} {topic} since the trip to {place}",
    "In {month} {year} {name} spoke about {topic} before {number} people in {place}",
    "{name}'s train to {place} leaves at {small}:{minute} on {day} from platform {small}",
    "Remind {name} to return the {thing} before {month} {small}, ticket {number}",
    "{name} and {other} share a {thing} and a flat in {place}, number {number}",
    "The password hint for the {topic} project is the {thing} of {name}, entry {number}",
    "{name} {feeling} {other_topic}; the course in {place} costs {number} dollars",
    "Order {number}: one {thing} and one {other_thing}, to {name}, {place}, by {day}",
    "{name} asked for a summary of {topic} of at most {number} words by {day} at {small}",
)
_QUESTIONS = (
    "where is the {thing} of {name} now?",
    "what does {name} think about {topic}?",
    "who spoke about {topic} in {place}?",
    "which {thing} was sent to {place}, and when?",
    "when did {name} move to {place}?",
    "how much did {other} pay for the {thing} in {place}?",
    "what has to be done about {topic} by {day}?",
    "does {name} still share the {thing} with {other}?",
)


def make_sentences(count: int, seed: int = 1) -> list[str]:
    """Return `count` different sentences of 40 to 120 characters."""
    sentences: dict[str, None] = {}
    for sentence in _fill_patterns(_SENTENCES, seed):
        if SHORTEST <= len(sentence) <= LONGEST:
            sentences[sentence] = None
        if len(sentences) == count:
            return list(sentences)
    raise AssertionError("there is always another sentence")


def make_questions(count: int, seed: int = 2) -> list[str]:
    """Return `count` questions about the subjects of the sentences."""
    questions = _fill_patterns(_QUESTIONS, seed)
    return [next(questions) for _ in range(count)]


def _fill_patterns(patterns: tuple[str, ...], seed: int) -> Iterator[str]:
    rng = random.Random(seed)
    while True:
        yield rng.choice(patterns).format(
            name=f"{rng.choice(_FIRST_NAMES)} {rng.choice(_FAMILY_NAMES)}",
            other=rng.choice(_FIRST_NAMES),
            place=rng.choice(_PLACES),
            other_place=rng.choice(_PLACES),
            thing=rng.choice(_THINGS),
            other_thing=rng.choice(_THINGS),
            topic=rng.choice(_TOPICS),
            other_topic=rng.choice(_TOPICS),
            feeling=rng.choice(_FEELINGS),
            act=rng.choice(_ACTS),
            day=rng.choice(_DAYS),
            month=rng.choice(_MONTHS),
            year=rng.randrange(1990, 2027),
            number=rng.randrange(100, 10_000),
            small=rng.randrange(1, 24),
            minute=f"{rng.randrange(60):02}",
        )
