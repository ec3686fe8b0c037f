package pii

import "strings"

func setOf(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// Words of addresses, with ASCII letters in lower case, and without points.
var (
	// streetWords end the name of a street in English.
	streetWords = setOf(`street st avenue ave av boulevard blvd road rd lane ln drive dr court ct place pl square sq terrace ter terr trail trl parkway pkwy circle cir way
		highway hwy alley aly close crescent cres grove gardens gdns mews row walk hill quay rise wharf plaza plz loop path pike broadway turnpike crossing xing ridge green
		parade pde esplanade expressway freeway route`)
	// smallStreets end it in addresses in lower case; plainWords are in none of these, and wordStates are codes of states that are also words.
	smallStreets = setOf("street st avenue ave boulevard blvd road rd lane ln drive dr court ct place pl parkway pkwy highway hwy crescent terrace circle cir")
	plainWords   = setOf(`the a an to of in on at for and or is are was were be by per as from down up off along with than that this my your his her its our their it i we you they not no
		miles mile km kilometers kilometres meters metres feet yards blocks minutes hours days weeks months years people percent steps times more less about only then`)
	wordStates = setOf("in or me hi ok oh la de al id co pa ma")
	// countedWords follow numbers that are no postcodes.
	countedWords = setOf("euro eur einwohner einwohnern besucher besuchern autos fahrzeuge personen menschen stück meter kunden teilnehmer mal jahre schritte punkte stimmen leute")

	// smallWays end the name of a German street in lower case as a separate word, after one of streetAdjectives or the name of a town in -er; wordsInER are no such
	// names.
	smallWays        = setOf("straße strasse str weg platz allee gasse ring damm ufer chaussee markt")
	streetAdjectives = setOf("alte neue lange kurze hohe breite große grosse kleine obere untere krumme alter neuer langer kurzer hoher breiter großer grosser kleiner oberer unterer")
	wordsInER        = setOf("welcher unserer anderer mancher solcher letzter zweiter dritter schöner hinunter herunter nächster ehemaliger gesamter beliebter bekannter")

	ordinals   = setOf("st nd rd th")
	smallWords = setOf("of the and on upon in at de del della di da do dos das la le les los las du des von van der den dem am an zu zum zur y e")
	unitWords  = setOf("apt apartment suite ste unit flat floor fl room rm bldg building lot level no")

	// frenchWords begin the name of a street in French.
	frenchWords = setOf("rue avenue av boulevard bd blvd place chemin allée allee impasse quai route cours square passage faubourg ruelle villa sentier")
	repeated    = setOf("bis ter quater")

	// leadingWords begin the name of a street whose number follows.
	leadingWords = setOf("calle c/ avenida avda av plaza paseo carrer passeig via viale piazza piazzale corso largo vicolo rua travessa praça rue")
	// streetEnds end it as a separate word.
	streetEnds = setOf("straße strasse str weg platz allee gasse ring damm ufer chaussee steig straat laan plein")

	lands     = setOf("d de a at ch f fr i it e es nl b be l lu")
	townWords = setOf("bad sankt st san santa saint sainte la le les den los new ciudad castel")

	states = setOf(`al ak az ar ca co ct de dc fl ga hi id il in ia ks ky la me md ma mi mn ms mo mt ne nv nh nj nm ny nc nd oh ok or pa ri sc sd tn tx ut vt va wa wv wi wy pr vi gu`)
	// provinces are those of Canada, australia the states of Australia.
	provinces = setOf("ab bc mb nb nl ns nt nu on pe qc sk yt")
	australia = setOf("nsw vic qld sa wa tas act nt")
)

// streetSuffixes end the name of a street that is a single word before its number.
var streetSuffixes = []string{
	"straße", "strasse", "str.", "weg", "platz", "allee", "gasse", "damm", "chaussee", "steig", "gracht", "straat", "laan", "plein", "singel", "vägen", "gatan", "vej",
}

// boxWords are before the number of a PO box.
var boxWords = []string{"P.O. Box ", "PO Box ", "P. O. Box ", "P.O.Box ", "POBox ", "Post Office Box ", "GPO Box ", "Postfach ", "Postbus ", "Apartado ", "Apartado de Correos ", "B.P. "}

var stateNames = []string{
	"Alabama", "Alaska", "Arizona", "Arkansas", "California", "Colorado", "Connecticut", "Delaware", "District of Columbia", "Florida", "Georgia", "Hawaii", "Idaho", "Illinois",
	"Indiana", "Iowa", "Kansas", "Kentucky", "Louisiana", "Maine", "Maryland", "Massachusetts", "Michigan", "Minnesota", "Mississippi", "Missouri", "Montana", "Nebraska",
	"Nevada", "New Hampshire", "New Jersey", "New Mexico", "New York", "North Carolina", "North Dakota", "Ohio", "Oklahoma", "Oregon", "Pennsylvania", "Rhode Island",
	"South Carolina", "South Dakota", "Tennessee", "Texas", "Utah", "Vermont", "Virginia", "Washington", "West Virginia", "Wisconsin", "Wyoming",
}
