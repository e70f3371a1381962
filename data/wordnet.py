"""Choose synonyms for the generated questions: `python data/wordnet.py` writes sql_env/worlds/synonyms.toml.

It reads WordNet as the package wordnet-base of Debian installs it; WORDNET-LICENSE.txt beside it is its licence.
A word's synonyms are those of one sense, which is named here or is the first of a fitting kind. What was unfit when the
list was read stands in REFUSED. One word in four is held out: no training question uses it (test_vocabulary does).
"""

import json
import re
from pathlib import Path
from zlib import crc32

from sql_env.worlds.words import load_vocabulary

WORDNET = Path("/usr/share/wordnet")
WORLDS = Path(__file__).parent.parent / "sql_env" / "worlds"
OUT = WORLDS / "synonyms.toml"
SOURCES = ("vocabulary", "wordings", "conditions", "selections")

# sense of each word of the forms that may be replaced, counted as WordNet does
FORM_WORDS = {
    "verb": "add up:2, find:4, show:1, display:1, check:1, compute:1, calculate:1, determine:1, provide:1, need:2, "
    "want:1, name:6, consider:1, rank:2",
    "noun": "count:2, total:1, sum:5, difference:2, month:1, colleague:1, customer:1, boss:1, meeting:1, question:1, "
    "gap:6, report:1",
    "adjective": "total:1, average:1, annual:2, missing:2, unknown:2, quick:1, distinct:3",
}
# WordNet's numbers of the kinds of nouns that fit a role of the vocabulary
KINDS = {
    "member": {18},
    "group": {6, 14, 15, 17},
    "thing": {6, 5, 20, 13, 10, 4, 17},
    "event": {4, 11, 10, 21},
    "column": {7, 28, 23, 21, 10, 9, 26, 18, 4, 24, 15, 14, 6, 27},
}
REFUSED = set(
    """
    totality; aggregate; divergence; fellow worker; speedy; ascertain;
    frequenter; pedant; scholastic; loaner; subdivision; arm; outstation; book of maps; softback; soft-cover;
    soft-cover book; softback book; lexicon; loaning; adoption; reclamation; rehabilitation; emptor; vendee;
    bookstall; best seller; intervention; process; cleansing; cleanup; lightening; assignment; naming; posing;
    followup; doc; sawbones; accoucheuse; paramedical; specializer; specialiser; sanatarium; image scanner;
    brooder; scrutiny; airplane pilot; boater; waterman; steerer; crewman; roustabout; wharfage; mooring;
    groin; groyne; mole; bulwark; seawall; breakwater; flatboat; hoy; dragger; jerk; dory; ocean trip;
    seafaring; towage; invitee; bon vivant; epicurean; gastronome; dining car; dining compartment;
    coffeehouse; pizza parlor; chophouse; sweet; afters; battercake; flannel cake; flannel-cake; flapcake;
    griddlecake; hotcake; omelet; service of process; bringing; chit; candymaker; loaf of bread; roster;
    crescent roll; beigel; gem; sinker; sideboard; nurseryman; agriculturist; agriculturalist; raiser;
    plantation owner; phytologist; landscapist; landscape architect; baby's room; grove; woodlet; plantation;
    patio; industrial plant; bush; herbaceous plant; orchidaceous plant; coniferous tree; husbandman; granger;
    sodbuster; stock raiser; cattle ranch; lea; ley; hayfield; moo-cow; caprine animal; grunter; squealer;
    biddy; handler; bird sanctuary; volary; fish tank; marine museum; king of beasts; camelopard;
    transportation; transferral; conveyance; domestic dog; coney; cony; black-footed ferret; kitty; newcomer;
    fledgling; fledgeling; neophyte; freshman; newbie; rival; competition; contender; ploy; variance;
    onslaught; onset; onrush; affaire d'honneur; brush; clash; skirmish; netkeeper; netminder; guardian;
    protector; shielder; bowl; jock; smuggler; contrabandist; moon curser; moon-curser; throwster; endurance
    contest; terminus; motortruck; camping bus; beach wagon; wagon; beach waggon; station waggon; waggon;
    minibike; wheeler; bicycler; messenger; trike; velocipede; all-terrain bike; off-roader; monocycle;
    railroad terminal; aerial tramway; cable tramway; ropeway; tramway; rattler; railroad train; railroad car;
    drome; airdock; flying field; whirlybird; eggbeater; jet-propelled plane; chopper; hydroplane; flying;
    educatee; assimilator; class fellow; initiate; tyro; tiro; course of instruction; mental testing;
    psychometric test; viva; lector; post doc; postdoc; bibliothec; composition; critique; vocalizer;
    vocaliser; performing artist; outdoor stage; vocal; symphonic music; lay; strain; melodic line; melodic
    phrase; doggerel; doggerel verse; public presentation; narration; yarn; motion-picture fan; moving
    picture; moving-picture show; motion-picture show; pic; picture palace; docudrama; infotainment; sketch;
    musical theater; dramatic play; prevue; preview; histrion; role player; terpsichorean; theater prompter;
    wendy house; travesty; mime; dumb show; curtain raising; newsperson; spreader; newsbreak; dissemination;
    spreading; machinist; lineman; linesman; maintenance man; service man; prentice; fixing; mend; mending;
    reparation; salesroom; electric refrigerator; automatic washer; dish washer; drier; liquidiser; steal;
    despatch; examiner; quizzer; photographic camera; installing; installment; instalment; tourer; tramp;
    tramper; packer; circuit; sashay; junket; jaunt; sail; hunting expedition; pilgrim's journey; military
    expedition; hostile expedition; engagement; boarder; auberge; guild; gild; manse; showing; aggregator;
    bargainer; monger; carpeting; pendent; pendant; tapis; decoration; laurel wreath; palm; ribbon; command;
    bidding; dictation; offering; refinisher; preserver; historiographer; aggregation; accumulation;
    assemblage; ms; blade; portrayal; portraiture; resettlement; closet; emporium; suit of clothes; chapeau;
    lid; waterproof; adjustment; accommodation; modification; oarsman; natatorium; exercise; exercising;
    physical exertion; rise; ascension; mounting; deliverance; saving; walking; sampler; basement; vino;
    cyder; laager; java; shake; sirup; mixologist; barkeep; apothecary's shop; unction; unguent; balm; salve;
    anodyne; antibiotic drug; poultice; cataplasm; medicament; medicinal drug; shaver; nipper; small fry;
    tiddler; tike; tyke; fry; nestling; yearling; bambino; rumpus room; day care center; dolly; puzzler;
    mystifier; teaser; hobby; hobbyhorse; military volunteer; supporter; task; labor; crusade; movement;
    effort; entreaty; prayer; designer; applied scientist; pipe fitter; dike; grapevine; mensuration;
    acceptation; espousal; military officer; tec; fire fighter; investigating; thieving; thievery; stealing;
    firing; warning signal; alarum; perceiver; percipient; beholder; uranologist; meteorological observation
    post; beacon; beacon light; pharos; scope; rain gage; udometer; radio detection and ranging;
    radiolocation; standardization; standardisation; rescuer; recoverer; remunerator; dealing; dealings;
    backdown; endorser; indorser; ratifier; telco; insurance underwriter; underwriter; traveler; theater;
    movie theatre; dig; steriliser; autoclave; annex; extension; wing; teller; doughnut; color; coloring;
    bicyclist; investigator; trader; vocalist; lounge; rug; examination; kindergarter; kindergartener;
    evaluation; recognition; longevity; monetary value; continuance; milage; powerfulness; lebensraum; mount;
    harm; scathe; expanse; maintenance; earth; acme; pinnacle; summit; superlative; meridian; tiptop; backing;
    financial backing; men; diminution; price cutting; postponement; disbursal; disbursement; attending; urban
    center; topographic point; commonwealth; res publica; body politic; maternal language; speech; speech
    communication; spoken communication; voice communication; oral communication; linguistic communication;
    career; sheepskin; trouble; placement; locating; positioning; emplacement; vicinity; neighborhood;
    neighbourhood; neck of the woods; angel; manner; dirt; filth; grime; grease; grunge; rootage; coloring
    material; shadiness; shadowiness; tincture; tone of voice; stuff; kernel; core; center; essence; gist;
    heart and soul; inwardness; marrow; nub; pith; nitty-gritty; shaper; manufacturing business; formatting;
    data formatting; signifier; descriptor; thrust; driving force; conformation; contour; wadding; wellness;
    tantrum; scene; conniption; mixture; miscellany; miscellanea; salmagundi; smorgasbord; potpourri; motley;
    mentality; mindset; criterion; touchstone; badness; severeness; distressfulness; graveness; sobriety;
    soberness; somberness; sombreness; readying; solution; resolution; solvent; transmission channel;
    itinerary; finding of fact; precedency; twenty-four hours; twenty-four hour period; civil day; license
    number; provenience; advancement; manpower; time lag; demo; demonstrate; check up on; check over; suss
    out; look into; cipher; cypher; figure; render; range; place; rate; order; see; reckoning; counting;
    numeration; enumeration; departure; workfellow; hirer; foreman; group meeting; interrogation; disruption;
    break; advert; bring up; refer; summate; number; check into; check out; full; wanting; lacking; aggroup;
    expose; entire; gaffer; cite; reckon; honcho; spread; span; voluntary; hands; mind-set; cyclopedia;
    cyclopaedia; admittance; airdrome; deep-freeze; highschool; prof; discrete; washer; physical exercise;
    regard; work force; clime; romance; broad jump; nameless; unnamed; sum; total; add; sum up; tot; find;
    find out; work out; compute; calculate; state; amount;
    """.replace("\n", " ").replace(";", "\0").split("\0")
)  # fmt: skip
REFUSED = {" ".join(word.split()) for word in REFUSED}


def read_wordnet(pos: str) -> tuple[dict, dict]:
    "Synsets by their offset, as a kind and words; and the offsets of the senses of each word."
    synsets, senses = {}, {}
    for line in (WORDNET / f"data.{pos}").read_text().splitlines():
        if line[0] != " ":
            parts = line.split(" | ")[0].split()
            words = parts[4 : 4 + 2 * int(parts[3], 16) : 2]
            synsets[parts[0]] = int(parts[1]), [w.split("(")[0].replace("_", " ") for w in words]
    for line in (WORDNET / f"index.{pos}").read_text().splitlines():
        if line[0] != " ":
            parts = line.split()
            senses[parts[0].replace("_", " ")] = parts[-int(parts[2]) :]
    return synsets, senses


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


def known_words() -> tuple[set[str], set[str]]:
    "Words of the vocabulary and the forms, and those that only forms for test_vocabulary use."
    lines = [
        line for name in SOURCES for line in (WORLDS / f"{name}.toml").read_text().splitlines()
    ]
    common, unseen, is_unseen = set(), set(), False
    for line in lines:
        head, found, tail = line.partition("unseen = [")
        if line.startswith(("[", "forms")):
            is_unseen = False
        if line.startswith("unseen"):
            is_unseen = True
        (unseen if is_unseen else common).update(words_of(head))
        unseen.update(words_of(tail))
    return common, unseen - common


COMMON, UNSEEN = known_words()


def is_held_out(word: str) -> bool:
    return word in UNSEEN or crc32(word.encode()) % 4 == 0


def choose(word: str, words: list[str]) -> dict[str, list[str]]:
    "Synonyms of a word for training and for the exam."
    chosen: dict[str, list[str]] = {"train": [], "exam": []}
    for synonym in words:
        new = words_of(synonym) - COMMON
        if synonym in REFUSED or not re.fullmatch("[a-z' -]+", synonym) or not new:
            continue
        sides = {is_held_out(part) for part in new}
        if len(sides) == 1:
            chosen["exam" if sides.pop() else "train"].append(synonym)
    return chosen


def line_of(word: str, chosen: dict[str, list[str]]) -> str:
    parts = ", ".join(f"{side} = {json.dumps(words)}" for side, words in chosen.items() if words)
    return f'"{word}" = {{{parts}}}'


def form_lines() -> list[str]:
    lines = []
    for pos, listed in FORM_WORDS.items():
        synsets, senses = read_wordnet(pos[:3] if pos == "adjective" else pos)
        lines.append(f"\n[{pos}]")
        for entry in listed.split(", "):
            word, sense = entry.split(":")
            chosen = choose(word, synsets[senses[word][int(sense) - 1]][1])
            if any(chosen.values()):
                lines.append(line_of(word, chosen))
    return lines


def name_lines() -> list[str]:
    vocabulary, (synsets, senses) = load_vocabulary(), read_wordnet("noun")
    roles = [
        (role, f[role]["words"])
        for f in vocabulary["fields"].values()
        for role in ("member", "group", "thing", "event")
    ]
    sections = ("numbers", "categories", "dates", "codes")
    roles += [
        ("column", about["words"]) for name in sections for about in vocabulary[name].values()
    ]
    lines, seen = ["\n[name]"], set()
    for role, words in roles:
        for word in words:
            kinds = (synsets[o] for o in senses.get(word.lower(), [])[:3])
            synonyms = next((found for kind, found in kinds if kind in KINDS[role]), [])
            chosen = choose(word, synonyms)
            if any(chosen.values()) and word not in seen:
                seen.add(word)
                lines.append(line_of(word, chosen))
    return lines


HEAD = """# Synonyms from WordNet 3.0 (Princeton University; see WORDNET-LICENSE.txt), chosen by data/wordnet.py.
# verb, noun, adjective: of words in forms; name: of what tables and columns are called. exam: for test_vocabulary only.
"""

if __name__ == "__main__":
    OUT.write_text(HEAD + "\n".join(form_lines() + name_lines()) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")
