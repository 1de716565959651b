"""Lists of words for the rules: relations, jobs, animals, languages, verbs, and words that are never names."""

from everhold.text.date_words import split_words

# Maps the word for a relative or acquaintance to the attribute whose value is that person.
RELATIONS = {
    "sister": "sibling", "brother": "sibling", "sibling": "sibling", "twin": "sibling",
    "wife": "married_to", "husband": "married_to", "spouse": "married_to",
    "girlfriend": "partner", "boyfriend": "partner", "partner": "partner", "fiancé": "partner", "fiancée": "partner",
    "fiance": "partner", "fiancee": "partner",
    "son": "child", "daughter": "child", "kid": "child", "child": "child", "baby": "child",
    "mother": "parent", "father": "parent", "mom": "parent", "mum": "parent", "dad": "parent",
    "grandmother": "grandparent", "grandfather": "grandparent", "grandma": "grandparent", "grandpa": "grandparent",
    "grandson": "grandchild", "granddaughter": "grandchild",
    "cousin": "cousin", "aunt": "aunt", "uncle": "uncle", "nephew": "nephew", "niece": "niece",
    "friend": "friend", "roommate": "roommate", "flatmate": "roommate", "neighbour": "neighbour",
    "neighbor": "neighbour", "boss": "boss", "manager": "boss", "colleague": "colleague", "coworker": "colleague",
    "co-worker": "colleague", "teacher": "teacher", "mentor": "mentor", "therapist": "therapist",
    "doctor": "doctor", "dentist": "dentist", "coach": "coach",
}  # fmt: skip

ANIMALS = split_words(
    """
    dog puppy cat kitten rabbit bunny hamster parrot horse pony fish goldfish turtle tortoise snake lizard bird
    ferret chicken goat canary budgie gecko iguana retriever labrador poodle beagle corgi spaniel husky terrier
    bulldog dachshund
    """
)

JOBS = split_words(
    """
    accountant actor actress analyst anthropologist apprentice architect artist astronomer attorney author
    baker banker barber barista bartender biologist bookkeeper builder butcher carpenter cashier chef chemist
    clerk composer consultant contractor counselor counsellor courier curator dancer dentist designer developer
    dietitian diplomat doctor economist editor electrician engineer entrepreneur farmer filmmaker firefighter
    florist freelancer gardener geologist hairdresser historian illustrator influencer instructor interpreter
    janitor jeweller journalist judge lawyer lecturer librarian lifeguard locksmith machinist magician manager
    mechanic midwife model musician nanny neurologist novelist nurse nutritionist optician painter paralegal
    paramedic pediatrician pharmacist photographer physician physicist physiotherapist pianist pilot plumber
    podcaster policeman politician potter producer professor programmer psychiatrist psychologist radiologist
    realtor receptionist recruiter reporter researcher sailor salesperson scientist sculptor secretary singer
    soldier student statistician surgeon surveyor tailor teacher technician therapist trader trainer translator
    trucker tutor veterinarian vet violinist waiter waitress welder writer zoologist
    """
)

# Words that judge a person: "a terrible teacher" and "a born leader" do not state a job.
JUDGING = split_words(
    """
    good bad great terrible awful better best worst big huge real born natural total complete fake failed
    horrible lousy proud frustrated former
    """
)

DIETS = split_words("vegan vegetarian pescatarian pescetarian flexitarian gluten-free keto halal kosher")
STATUSES = split_words("single married divorced engaged widowed separated")
CONDITIONS = split_words("diabetes asthma epilepsy adhd arthritis anemia celiac insomnia migraines dyslexia")

LANGUAGES = split_words(
    """
    English Thai French German Spanish Italian Portuguese Dutch Swedish Norwegian Danish Finnish Polish Czech
    Russian Ukrainian Greek Turkish Arabic Hebrew Hindi Urdu Bengali Tamil Mandarin Cantonese Chinese Japanese
    Korean Vietnamese Indonesian Malay Tagalog Swahili Hungarian Romanian Bulgarian Serbian Croatian Catalan
    Welsh Irish Latin Lao Khmer Burmese Persian Farsi Punjabi Icelandic Esperanto
    """
)

NATIONALITIES = LANGUAGES | split_words(
    """
    American British Canadian Australian Mexican Brazilian Argentinian Colombian Indian Austrian Swiss Belgian
    Egyptian Nigerian Kenyan Filipino Scottish Israeli Iranian Pakistani European Asian African Chilean
    Peruvian Singaporean Malaysian
    """
)

# Countries and larger regions, folded. A city may be in one of them.
REGIONS = frozenset(
    """
afghanistan|africa|albania|algeria|andorra|angola|argentina|armenia|asia|australia|austria|azerbaijan|bahamas|bahrain
bangladesh|barbados|bavaria|belarus|belgium|belize|benin|bhutan|bolivia|bosnia|botswana|brazil|britain|brittany|brunei
bulgaria|burkina faso|burundi|california|cambodia|cameroon|canada|catalonia|chad|chile|china|colombia|congo|cornwall
costa rica|croatia|cuba|cyprus|czech republic|czechia|denmark|dominican republic|ecuador|egypt|el salvador|england
eritrea|estonia|ethiopia|europe|fiji|finland|flanders|florida|france|gabon|gambia|georgia|germany|ghana|great britain
greece|guatemala|guinea|guyana|haiti|hawaii|honduras|hungary|iceland|india|indonesia|iran|iraq|ireland|israel|italy
ivory coast|jamaica|japan|jordan|kazakhstan|kenya|korea|kosovo|kuwait|kyrgyzstan|laos|latvia|lebanon|liberia|libya
liechtenstein|lithuania|luxembourg|madagascar|malawi|malaysia|maldives|mali|malta|mauritania|mauritius|mexico|moldova
mongolia|montenegro|morocco|mozambique|myanmar|namibia|nepal|netherlands|new zealand|nicaragua|niger|nigeria
north america|north macedonia|northern ireland|norway|oman|oregon|pakistan|panama|papua new guinea|paraguay|peru
philippines|poland|portugal|qatar|romania|russia|rwanda|saudi arabia|scandinavia|scotland|senegal|serbia|sicily
sierra leone|slovakia|slovenia|somalia|south africa|south america|south korea|spain|sri lanka|sudan|sweden|switzerland
syria|taiwan|tajikistan|tanzania|texas|thailand|togo|tunisia|turkey|turkmenistan|uae|uganda|uk|ukraine
united arab emirates|united kingdom|united states|uruguay|us|usa|uzbekistan|venezuela|vietnam|wales|wallonia|yemen
zambia|zimbabwe
""".replace("\n", "|")
    .strip("|")
    .split("|")
)

FAITHS = split_words("Christian Muslim Jewish Buddhist Hindu Catholic Protestant Sikh Mormon")

ADVERBS = split_words(
    """
    really also still just currently now always actually absolutely recently totally mostly mainly truly deeply
    simply usually generally both all already finally especially particularly strongly honestly definitely
    certainly officially kinda originally proudly happily temporarily permanently only quite so very personally
    newly rather originally
    """
)

NOT_NAMES = split_words(
    """
    The This That These Those It Its There Here He She They You Your We Our I My His Her Their What When Where
    Who Why How Which If And But Or So Then Also Just Today Yesterday Tomorrow Tonight Everyone Everybody
    Nobody Someone Somebody People Everything Nothing Something Anything No Yes Not Now Maybe Perhaps Please
    Thanks Thank Hello Hi Hey Well Oh Monday Tuesday Wednesday Thursday Friday Saturday Sunday January February
    March July September October November December Work Life Love Food Weather Time Money One Two Three Some
    Most Many All Any Every Each Another Nothing Last Next In On At For With From By As To Of After Before
    Since Because Although While Never Always Sometimes Dinner Lunch Breakfast Remember Note Being Having Going
    Living Working Let Lets Can Could Would Should Will May Might Must Did Do Does Is Are Was Were Am Has Have
    Had Me
    """
)

IRREGULAR_PAST = split_words(
    """
    went met took bought got ran won lost flew drove ate made began wrote came left gave found built sold broke
    swam spoke taught held spent sang rode had chose grew caught paid quit threw brought sent put set hosted
    saw hung dug became
    """
)

# Past forms of feelings and utterances, which are not events.
NOT_EVENTS = split_words(
    """
    wanted needed liked loved hoped tried asked seemed wished used decided believed guessed wondered realized
    noticed remembered enjoyed hated disliked preferred worried bored tired excited interested confused
    surprised planned figured missed mentioned supposed wasted promised thanked agreed
    """
)

# Past forms of events that are kept even without a date.
LIFE_EVENTS = split_words(
    """
    graduated adopted bought visited married moved retired divorced
    """
)  # fmt: skip
