package semantic

import "strings"

// Word lists of English. A word that is in none of them is a content word: it must stand in both questions, at the same place. So a list may only grow by
// words whose presence, or whose exchange with another, never changes what is asked.

// set makes a set of the words of a text.
func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// groups makes a table from each word of a line to its first one.
func groups(lines string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		for _, w := range words[min(1, len(words)):] {
			out[w] = words[0]
		}
	}
	return out
}

// english are words by which a text is recognised as English. Words that are frequent in other languages with another meaning are left out.
var english = set(`the what who whom whose how why when where which is are does did do can could should would will have has tell explain describe write give list
	show name define compare translate convert summarize calculate create compose generate suggest fix correct find make buy sell swap send set of to and with my your i you
	please for from this that it on if not if there their our we they these those was were been being at by about than then or but be any some explain provide set open close
	deposit withdraw bridge enable disable add remove delete start stop side population price`)

// foreign are words by which a text is recognised as not, or not only, English. Words that also exist in English are left out.
var foreign = set(`de el los las un una unos del al es esta este como cuando donde quien cual cuanto cuanta sin pero porque su sus yo muy se lo que
	der das dem ein eine einen einem einer ist sind nicht kein keine und oder aber wie wo wer wann warum welche welcher welches ich du er sie wir ihr mein meine dein fur
	zum zur mit ohne nach bei aus auf soll kann
	le les des sont ne ou mais avec sans dans sur qui quel quelle quels quelles quand pourquoi je il elle nous vous ils ce cette au aux
	gli che chi cosa quando perche quanto sono sei di da della dello dei delle nel nella senza io tu lui lei noi voi mio tuo posso
	uma umas quem onde qual sem mas voce ela nos meu minha seu sua
	het een niet geen ik jij hij zij wij ons onze mijn naar uit voor hoe waarom wanneer waar welke zijn wordt duur
	och att inte ar jag det ett som utan hur varfor vem
	nie czy jak gdzie kiedy ile dlaczego kto od dla przy bez bilet
	ve bir bu nasil neden nerede kim degil
	ei ja tai mutta miten miksi missa kuka onko
	avem cum unde cand cine sunt azi timp`)

// articles are left out, with particles that add nothing.
var articles = set("a an the of please kindly actually")

// copulas are forms of to be in the present, which are left out, but not that there is one: "is it open" is not "does it open".
var copulas = set("is are am")

// afterMain are words before which "do" is a main verb.
var afterMain = set("a an the my your his her our their it this that these those with about if when to for in on at now today tomorrow first next so more less anything something nothing")

// beforeMain are words after which "do" is a main verb.
var beforeMain = set("HOWTO to can could should would will must may might shall i you we they he she")

// amounts are words that have another meaning with "a" before them.
var amounts = set("few little lot bit couple")

// tenses are forms of auxiliary verbs. The first word of each line represents the others.
var tenses = groups(`
	was were
	had had
	did did
	will will
`)

// yesNoVerbs are forms that begin a question that is answered with yes or no.
var yesNoVerbs = set("is are am was were do does did can could should would will shall must may might has have had")

// contractions, after the apostrophe or as a whole.
var contractions = map[string]string{
	"can't": "can not", "cannot": "can not", "won't": "will not", "shan't": "shall not", "ain't": "is not", "let's": "let us", "i'm": "i am", "gonna": "going to",
	"wanna": "want to", "gotta": "have to", "what's": "what is", "who's": "who is", "where's": "where is", "when's": "when is", "how's": "how is", "why's": "why is",
	"it's": "it is", "that's": "that is", "there's": "there is", "here's": "here is", "he's": "he is", "she's": "she is", "whats": "what is",
	"dont": "do not", "doesnt": "does not", "isnt": "is not", "cant": "can not", "wont": "will not", "didnt": "did not", "wasnt": "was not", "shouldnt": "should not",
}

// endings of contractions.
var endings = []struct{ short, long string }{
	{"n't", " not"}, {"'re", " are"}, {"'ve", " have"}, {"'ll", " will"}, {"'d", " would"},
}

// synonyms are words that can replace each other in a question. The first of a line represents the others.
var synonyms = groups(`
	what which
	large big
	begin start
	end finish
	buy purchase
	repair fix correct
	write compose draft
	remove delete
	change modify
	lower reduce decrease
	increase raise
	film movie
	photo picture
	car automobile
	child kid children kids
	email e-mail
	advantage benefit
	disadvantage drawback
	maximum max
	minimum min
	information info
	application app
	configuration config
	repository repo
	database db
	documentation docs
	versus vs
	tv television
	phone telephone
	need require
	allow permit
	obtain acquire
	fall drop
	provide supply
	color colour
	gray grey
	center centre
	favorite favourite
	behavior behaviour
	neighbor neighbour
	organize organise
	summarize summarise
	optimize optimise
	analyze analyse
	initialize initialise
	license licence
	program programme
	traveling travelling
	canceled cancelled
	aluminum aluminium
	km kilometer kilometers kilometre kilometres kms
	meter metre meters metres
	centimeter centimetre centimeters centimetres cm
	millimeter millimetre millimeters millimetres mm
	kg kilogram kilograms kilo kilos
	gram grams gramme grammes
	liter litre liters litres
	hour hr hrs hours
	minute mins minutes
	second secs seconds
	percent pct
	usd dollar dollars
	eur euro euros
	btc bitcoin
	javascript js
	january jan
	february feb
	june jun
	july jul
	august aug
	september sep sept
	october oct
	november nov
	december dec
	ways methods
	fast quick
	easy simple
	hard difficult
	job occupation
	doctor physician
	often frequently
	approximately roughly
	largest biggest
	larger bigger
	smallest littlest
	happen occur
`)

// numbers are words for numbers, except one, which is also a pronoun.
var numbers = map[string]string{
	"zero": "0", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12",
	"twenty": "20", "thirty": "30", "forty": "40", "fifty": "50",
}

// names are names that are not common words in lower case.
var names = set(`afghanistan albania algeria argentina armenia australia austria azerbaijan bangladesh belarus belgium bolivia bosnia brazil bulgaria cambodia cameroon canada
	chile colombia croatia cuba cyprus czechia denmark ecuador egypt estonia ethiopia finland france germany ghana greece guatemala haiti honduras hungary iceland india
	indonesia iran iraq ireland israel italy jamaica japan kazakhstan kenya korea kuwait laos latvia lebanon libya lithuania luxembourg madagascar malaysia mexico moldova
	mongolia morocco mozambique myanmar namibia nepal netherlands nicaragua niger nigeria norway pakistan panama paraguay peru philippines poland portugal qatar romania russia
	rwanda senegal serbia singapore slovakia slovenia somalia spain sudan sweden switzerland syria taiwan tanzania thailand tunisia uganda ukraine uruguay uzbekistan venezuela
	vietnam yemen zambia zimbabwe america usa uk europe africa asia antarctica england scotland
	amsterdam athens bangkok barcelona beijing berlin boston brussels budapest cairo chicago copenhagen delhi dublin hamburg helsinki istanbul jakarta kyiv lagos lisbon london
	madrid manila melbourne miami milan moscow mumbai munich oslo paris prague rome seattle seoul shanghai stockholm sydney tokyo toronto vancouver venice vienna warsaw zurich
	english french german spanish italian portuguese dutch russian chinese japanese korean arabic hindi latin swedish norwegian danish turkish hebrew greek
	monday tuesday wednesday thursday friday saturday sunday january february april june july september october november december christmas
	eth btc usdc usdt dai bitcoin ethereum solana uniswap aave arbitrum defi nft dao api html css sql http https json xml yaml pdf csv url dns tcp udp ssh ssl tls vpn cpu gpu ram
	linux ubuntu docker kubernetes javascript typescript postgres postgresql mysql mongodb redis git github gitlab nginx django numpy pandas python java kotlin haskell golang php
	ceo cfo cto tvl apy apr gdp amm dex
	google microsoft netflix spotify youtube facebook instagram whatsapp tesla einstein newton shakespeare mozart beethoven darwin napoleon`)

// notPlural are words that end in s and are not the plural of the word without it, or mean something else without it.
var notPlural = set(`news goods arms customs means glasses physics mathematics maths economics politics gymnastics series species always perhaps besides across atlas bias
	gas lens bus plus minus thus this his its us yes texas kansas paris brussels athens james charles wales vegas aids dues minutes states times sales savings
	class pass less unless kindness business address process access success progress congress princess express press stress dress cross loss boss mass
	has was does is as towards afterwards cos sas rus dos ios sometimes lens canvas christmas pros cons status virus focus bonus campus census chorus corpus genius radius
	premises spirits contents manners clothes woods shorts forces rights compasses glass brass grass mars
	analysis basis crisis thesis hypothesis diagnosis oasis parenthesis synopsis emphasis tennis iris axis debris redis`)

// singularVerbs are verbs after which "a" means one: a book is not books.
var singularVerbs = set("NAME LIST write recommend suggest give find buy sell make add show create generate pick choose tell send order")

// notTopics are words that make "what is X" a question for a value, and not for an explanation.
var notTopics = set(`my your his her our their its this that it he she they you i we there here today now tomorrow yesterday left new wrong up next for in on at to from with by not if
	happening going different better best worse`)

// attributes are what something has or is, such as the height of a mountain: "the height of X" and "X's height" are the same.
var attributes = set(`age altitude area author birthday birthdate budget calories capital ceo cfo color composition cost creator currency date definition density depth diameter
	director discoverer distance duration elevation founder formula function gdp height history inventor language length location meaning mass name nickname number origin owner
	painter plot population president price purpose radius rank rating salary shape size source speed status structure surface symbol symptom synonym tagline taste temperature
	time title tvl value volume wavelength weight width yield apy apr`)
