"""Words that are frequent in any conversation and say little about its topic."""

from functools import cache

from everhold.text.terms import extract_terms

_COMMON_WORDS = """
able absolutely achieve across actually add adventure advice afraid ago agree ahead almost alone along already also
although always amazing another anybody anyone anything anyway appreciate area around ask asked awesome away awhile back
bad badly beautiful became become becoming began begin beginning behind believe best better big bit blast boost break
bring brings brought build busy call called calm came capture care cause certain certainly chance change changed
changing chat check cheer cheers choice choose clear close come comes comfort coming community complete completely
connect connection consider continue cool could count couple course crazy create creative curious current currently cute
cut day days deal decide decided deep definitely delicious difference different difficult done doubt dream dreams early
easy either else encourage encouraging end energy enjoy enjoyed enjoying enough especially even ever every everybody
everyone everything exactly excited excitement exciting expect experience experiences explore express extra face fact
fall family fantastic far fast favorite favourite feel feeling feelings feels felt few figure finally find fine finish
first focus follow forget forward found free fresh friend friends full fun funny future gave generally get gets getting
give given giving glad go goal goals goes going gone gonna good gorgeous got gotta grateful great group grow growing
growth guess guy guys half hand hang happen happened happening happiness happy hard head hear heard heart hello help
helped helpful helping helps hey hi hit hold home honest hope hopefully hour hours however huge idea ideas imagine
impact important impressive incredible indeed inspiration inspire inspired inspiring instead interest interested
interesting involved issue job join journey joy keep keeps kept kid kind kinda know knowing known knows last lately
later learn learned learning least leave left less let lets life light like likely line listen little live living long
look looked looking looks lot lots love loved lovely loves loving luck lucky made main make makes making many matter may
maybe mean meaningful means meant meet meeting memories memory mention might mind mine minute miss moment moments month
months mood morning motivate motivated move moved moving much must name nature near nearly need needed needs neither
never new news next nice night nobody none nope nothing notice number obviously offer often oh ok okay old one ones open
opportunity order others otherwise outside part particular pass passion passionate past pay peace peaceful people
perfect perhaps person perspective photo pic picture piece place places plan planning plans play please pleased plenty
point positive possible power powerful practice pretty pride probably problem process progress proud push put question
quick quickly quite rather reach read ready real realize really reason recent recently recharge refreshing relax
relaxing remember remind reminder reminds rest result right role rough rush said saw say saying says second see seeing
seem seemed seems seen self send sense serious seriously set several share shared sharing short show showed shows side
sign similar simple since single situation small smile somebody someone something sometime sometimes somewhere soon
sorry sort sound sounds space special spend spent spot spread stand start started starting state stay step still stop
stories story strength stress strong struggle stuff stunning success suggest super support supporting supportive
supposed sure surprise sweet take taken takes taking talk talked talking team tell thank thankful thanks thing things
think thinking third though thought thoughts thrilled throughout time times tip tips today together told tomorrow
tonight took top totally touch tough toward true truly trust try trying turn turned two type understand understanding
unique unless upcoming us use used useful using usual usually value vibe view visit wait walk wanna want wanted wants
warm watch way ways week weekend weeks welcome well went whatever whenever whether whole wish without wonder wonderful
wondering word words work worked working works world worry worth wow write wrong yea yeah year years yep yes yesterday
yet young yup
"""


@cache
def get_common_terms() -> frozenset[str]:
    """Return the terms of the common words."""
    return frozenset(extract_terms(_COMMON_WORDS))
