package semantic

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// canonical makes a form of words: it takes away what does not matter, and replaces frames of questions by signs in capitals.
func canonical(words []word) string {
	words = withoutPoliteness(words)
	quoted := map[string]string{}
	var b strings.Builder
	for _, w := range words {
		text := w.text
		if w.verbatim {
			text = placeholder(quoted, w.text)
		} else if n, ok := numbers[text]; ok {
			text = n
		}
		b.WriteByte(' ')
		b.WriteString(text)
	}
	b.WriteByte(' ')
	line := " " + strings.Join(strings.Fields(dates(b.String())), " ") + " "
	opener := yesNo(line)
	line = topic(line)
	for _, f := range frames() {
		line = f.pattern.ReplaceAllString(line, f.with)
	}
	tokens := reduce(strings.Fields(line), quoted)
	return opener + strings.Join(tokens, " ")
}

// Plain is a question without what only makes it polite, as models compare it.
func Plain(text string) string {
	words, ok := split(strings.TrimSpace(plainQuotes.Replace(text)))
	if !ok || !isEnglish(words) {
		return text
	}
	var b strings.Builder
	for i, w := range withoutPoliteness(words) {
		if i > 0 && w.text != possessive {
			b.WriteByte(' ')
		}
		b.WriteString(strings.TrimLeft(w.text, "^"))
	}
	return b.String()
}

// placeholder stands for a verbatim text while frames are replaced.
func placeholder(quoted map[string]string, text string) string {
	sign := "\x01" + strings.Repeat("\x02", len(quoted)) + "\x01"
	quoted[sign] = text
	return sign
}

// Polite phrases at the beginning and at the end of requests. Longer ones precede shorter ones.
var (
	greetings = phrases("good morning", "good evening", "hi there", "hello there", "hi", "hello", "hey", "thanks and", "thank you and", "thanks", "thank you", "ok", "okay", "quick question", "excuse me", "please")
	requests  = phrases("i would like you to", "i want you to", "i would like to know", "i want to know", "i need to know", "i was wondering", "i wonder", "could you tell me", "can you tell me",
		"would you tell me", "will you tell me", "do you know", "tell me", "let me know", "can someone tell me", "does anyone know", "do you happen to know", "please tell me", "could you please tell me", "can you please tell me")
	asides = phrases("please", "thanks", "thank you", "thanks in advance", "thank you very much", "thanks a lot")
)

func phrases(list ...string) (out [][]string) {
	for _, p := range list {
		out = append(out, strings.Fields(p))
	}
	slices.SortStableFunc(out, func(a, b []string) int { return len(b) - len(a) })
	return out
}

// requestVerbs are verbs of requests to a model: "can you list X" is a request for the list.
var requestVerbs = set(`explain describe give list show write help summarize summarise translate define name suggest recommend provide create generate draft compose calculate convert
	compare outline fix correct find tell`)

// withoutPoliteness removes what only makes a request polite.
func withoutPoliteness(words []word) []word {
	for changed := true; changed && len(words) > 1; {
		var cut int
		if cut = prefixOf(words, greetings); cut == 0 {
			cut = requestPrefix(words)
		}
		changed = cut > 0 && cut < len(words)
		if changed {
			words = words[cut:]
		}
	}
	for _, p := range asides {
		if n := len(words) - len(p); n > 0 && matches(words[n:], p) {
			words = words[:n]
		}
	}
	return words
}

func prefixOf(words []word, list [][]string) int {
	for _, p := range list {
		if len(words) > len(p) && matches(words, p) {
			return len(p)
		}
	}
	return 0
}

func matches(words []word, phrase []string) bool {
	for i, p := range phrase {
		if words[i].verbatim || words[i].text != p {
			return false
		}
	}
	return true
}

// requestPrefix is the number of words before a request, such as "could you please"; 0 if no request follows.
func requestPrefix(words []word) int {
	if n := prefixOf(words, requests); n > 0 {
		next := words[n].text
		if next == "about" || next == "if" || next == "whether" { // these introduce the question
			return 0
		}
		return n
	}
	n := 0
	if len(words) > 3 && (words[0].text == "can" || words[0].text == "could" || words[0].text == "would" || words[0].text == "will") && words[1].text == "you" {
		n = 2
		if words[n].text == "please" {
			n++
		}
		if !requestVerbs[words[n].text] {
			return 0
		}
	}
	return n
}

// yesNo marks a question that is answered with yes or no: it begins with a verb.
func yesNo(line string) string {
	if first, _, _ := strings.Cut(strings.TrimLeft(line, " "), " "); yesNoVerbs[first] {
		return "? "
	}
	return ""
}

// topic marks a question for an explanation, such as "what is a liquidity pool", which is equivalent to "explain liquidity pools".
func topic(line string) string {
	rest, ok := strings.CutPrefix(line, " what is ")
	if !ok {
		if rest, ok = strings.CutPrefix(line, " what are "); !ok {
			return line
		}
	}
	words := strings.Fields(rest)
	if len(words) > 1 && (words[0] == "a" || words[0] == "an") {
		words = words[1:]
	}
	if len(words) == 0 || len(words) > 2 {
		return line
	}
	for _, w := range words {
		if s := singular(w); notTopics[w] || articles[w] || attributes[s] || w == possessive || w[0] < 'A' || numbers[w] != "" {
			return line
		}
	}
	return " ABOUT " + strings.Join(words, " ") + " "
}

var (
	dayMonth  = regexp.MustCompile(` (\d{1,2})(?:th)? (?:of )?(january|february|\^march|april|\^may|june|july|\^august|september|october|november|december) `)
	monthDays = regexp.MustCompile(` (january|february|\^march|april|\^may|june|july|\^august|september|october|november|december) (\d{1,2})th `)
)

// dates writes the day after the month.
func dates(line string) string {
	line = dayMonth.ReplaceAllString(line, " $2 $1 ")
	return monthDays.ReplaceAllString(line, " $1 $2 ")
}

type frame struct {
	pattern *regexp.Regexp
	with    string
}

func framesOf(rows ...string) (out []frame) {
	for i := 0; i < len(rows); i += 2 {
		out = append(out, frame{regexp.MustCompile(rows[i]), rows[i+1]})
	}
	return out
}

// frames are patterns of equivalent questions. They are applied one after another, to words between single spaces; \x01 and \x02 represent quoted texts. They are
// compiled for the first question, since not every command of the program needs them.
var frames = sync.OnceValue(func() []frame {
	return framesOf(
		`^ (?:and|but|so) `, ` `,
		// how to
		`^ (?:explain|describe|show|teach|tell)(?: to)?(?: me)? how (?:i can|i could|you can|you could|one can|to|do i|do you) `, ` HOWTO `,
		`^ how (?:can|do|could|would) (?:i|you|we|one) `, ` HOWTO `,
		`^ how to `, ` HOWTO `,
		`^ (?:what is|what are) the (?:steps|way|ways) (?:to|for) `, ` HOWTO `,
		`^ (?:instructions|steps) (?:to|for) `, ` HOWTO `,
		`^ in what way (does|do|did|can|is|are) `, ` how $1 `,
		`^ (?:in )?what year (did|was|were) `, ` when $1 `,
		`^ (when|where|how|why|what) (?:is|are|am) (.+?) going to `, ` $1 will $2 `,
		`^ (what|who) (the |a |an |my |your )(.+?) (?:is|are) $`, ` $1 is $2$3 `,
		// reasons
		`^ how come `, ` WHY `,
		`^ what is the reason (?:that |why )?`, ` WHY `,
		`^ (?:explain|describe)(?: to me)? why `, ` WHY `,
		`^ why (?:do |does )?`, ` WHY `,
		// workings
		`^ (?:explain|describe)(?: to me| me)? how (.+?) works? `, ` WORKINGS $1 `,
		`^ how (?:does|do) (.+?) work `, ` WORKINGS $1 `,
		// meanings
		`^ what (?:does|do) (.+?) stand for $`, ` $1 ABBREVIATES `,
		`^ what is (.+?) short for $`, ` $1 ABBREVIATES `,
		`^ what (?:does|do) (?:the word )?(\S+(?: \S+)?) mean $`, ` MEANING $1 `,
		`^ (?:what is )?the (?:meaning|definition) of (?:the word )?`, ` MEANING `,
		`^ (?:meaning|definition) of `, ` MEANING `,
		`^ define `, ` MEANING `,
		// what it is
		`^ (?:explain|describe)(?: to me| me)? what (?:a |an |the )?(.+?) (?:is|are|means?) $`, ` ABOUT $1 `,
		`^ (?:explain|describe)(?: to me| me)? `, ` ABOUT `,
		`^ tell me (?:more )?about `, ` ABOUT `,
		// lists
		`^ (?:give|show|write)(?: me)? (?:a |the )?list of (?:all )?(?:the )?`, ` LIST `,
		`^ list (?:all )?(?:of )?(?:the )?`, ` LIST `,
		`^ (?:give|provide)(?: me| us)? (?:a |an |the )?(?:brief )?(?:summary|overview) (?:of|on) `, ` SUMMARY `,
		`^ (?:summarize|summarise|sum up) `, ` SUMMARY `,
		`^ (?:write|compose|create|generate|draft|make|come up with)(?: me| us)? (a |an |the |\d+ )?((?:short |long |funny )?(?:poem|haiku|story|song|limerick|slogan|joke|essay|email|letter|tweet|tagline)s?) `, ` write $1$2 `,
		`^ (?:give|name|suggest|provide)(?: me| us)? `, ` NAME `,
		// differences
		`^ (?:what is |what are )?(?:the )?differences? between (.+?) and (.+) $`, ` DIFFERENCE $1 and $2 `,
		`^ how (?:do|does) (.+?) (?:and|from) (.+?) differ $`, ` DIFFERENCE $1 and $2 `,
		`^ how (?:does|do) (.+?) differ from (.+) $`, ` DIFFERENCE $1 and $2 `,
		`^ how (?:is|are) (.+?) different from (.+) $`, ` DIFFERENCE $1 and $2 `,
		// translations
		`^ translate (\x01\x02*\x01) (?:to|into) (\S+) $`, ` TRANSLATION $1 $2 `,
		`^ HOWTO say (\x01\x02*\x01) in (\S+) $`, ` TRANSLATION $1 $2 `,
		`^ what is (\x01\x02*\x01) in (\S+) $`, ` TRANSLATION $1 $2 `,
		// attributes
		`^ how much (?:does|do) (.+?) cost $`, ` what is the price of $1 `,
		`^ what (?:does|do) (.+?) cost $`, ` what is the price of $1 `,
		`^ what is the cost of `, ` what is the price of `,
		`^ how many people live in (.+) $`, ` what is the population of $1 `,
		`^ how old (?:is|are) (.+) $`, ` what is the age of $1 `,
		`^ how (?:tall|high) (?:is|are) (.+) $`, ` what is the height of $1 `,
		`^ how much (?:does|do) (.+?) weigh $`, ` what is the weight of $1 `,
		`^ (?:at )?what temperature (?:does|do) (.+?) boil(?: at)? $`, ` what is the boiling point of $1 `,
		`^ who (?:wrote|authored) (.+) $`, ` who is the author of $1 `,
		`^ who (?:is|was) the (author|inventor|founder|painter|discoverer|composer) of (.+) $`, ` who is the $1 of $2 `,
		`^ who invented (.+) $`, ` who is the inventor of $1 `,
		`^ who founded (.+) $`, ` who is the founder of $1 `,
		`^ who painted (.+) $`, ` who is the painter of $1 `,
		`^ who discovered (.+) $`, ` who is the discoverer of $1 `,
		`^ who directed (.+) $`, ` who is the director of $1 `,
		`^ when was (.+?) born $`, ` what is the birthdate of $1 `,
		`^ what is (.+?) 's (?:birthday|date of birth|birth date|birthdate) $`, ` what is the birthdate of $1 `,
		`^ where (is|are) (.+?) (?:located|situated) $`, ` where $1 $2 `,
		`^ what time is it(?: now)? in `, ` what is the time in `,
		`^ what is the current time in `, ` what is the time in `,
		`^ what currency is used in (.+) $`, ` what is the currency of $1 `,
		`^ (?:what|which) (.+?) (?:is|are) the (\S+est) $`, ` $2 $1 `,
		`^ what (?:language|languages) (?:is|are) spoken in (.+) $`, ` what language do people speak in $1 `,
		`^ how many (.+?) (?:does|do) (.+?) have $`, ` how many $1 in $2 `,
		`^ how many (.+?) (?:are|is) (?:there )?in (.+) $`, ` how many $1 in $2 `,
		`^ what is the number of (.+?) in (.+) $`, ` how many $1 in $2 `,
		// phrases
		` pros and cons `, ` advantages and disadvantages `,
		` get in touch with `, ` contact `,
		` turn on `, ` enable `,
		` turn off `, ` disable `,
		` log in `, ` login `,
		` sign in `, ` login `,
		` set up `, ` setup `,
		` (?:calculate|compute) (\S+) percent of `, ` $1 percent of `,
		` what is (\d\S*) `, ` $1 `,
		` am i able to `, ` can i `,
		` (?:is|are|am) going to `, ` will `,
		` (?:is|are) there `, ` `,
		`^ HOWTO (.*?)(?: my| our) `, ` HOWTO $1 `,
		` (?:united states of america|united states|the us|the \^\^us|the \^\^usa|\^united \^states) `, ` usa `,
		` (?:united kingdom|\^united \^kingdom|the \^\^uk) `, ` uk `,
		` an? number of `, ` number of `,
		`^ what (?:is|are) (?:the )?`, ` `,
		`^ who (?:is|are) the `, ` who `,
	)
})

// ofAttribute turns "the height of X" into "X height".
var ofAttribute = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(` (?:the )?((?:current |average |total |maximum |minimum |boiling |melting |freezing |market |release |health |time )?[a-z]+) of (?:the |a |an )?([^ ]+(?: [^ ]+)*?) (in|on|at|from|for|with|and|or|by|than|to|is|are|was|were|if|when|$)`)
})

// reduce returns the words of a form: without articles and auxiliaries, with one word for synonyms, and with attributes after their owners.
func reduce(tokens []string, quoted map[string]string) (out []string) {
	tokens = strings.Fields(attributesLast(" " + strings.Join(tokens, " ") + " "))
	copula := false
	for i, t := range tokens {
		before, after := "", ""
		if i > 0 {
			before = tokens[i-1]
		}
		if i+1 < len(tokens) {
			after = tokens[i+1]
		}
		text, isQuoted := quoted[t]
		switch {
		case isQuoted:
			out = append(out, "="+text)
		case (t == "a" || t == "an") && (singularVerbs[before] || amounts[after]):
			out = append(out, "1")
		case copulas[t]:
			copula = true
		case articles[t], t == possessive, isAuxiliary(t, before, after):
		default:
			out = append(out, common(t))
		}
	}
	if copula {
		out = append(out, "+be")
	}
	return out
}

// isAuxiliary reports whether a word is a form of to do that only makes a question or a negation.
func isAuxiliary(t, before, after string) bool {
	return (t == "do" || t == "does") && after != "" && !beforeMain[before] && (t == "does" || !afterMain[after] || before == "")
}

// common is the word that stands for a word and its synonyms, in singular and plural.
func common(t string) string {
	if s := synonyms[t]; s != "" {
		t = s
	}
	t = singular(t)
	if s := synonyms[t]; s != "" {
		t = s
	}
	if s := tenses[t]; s != "" {
		t = s
	}
	return t
}

// attributesLast writes an attribute behind what has it.
func attributesLast(line string) string {
	return ofAttribute().ReplaceAllStringFunc(line, func(m string) string {
		p := ofAttribute().FindStringSubmatch(m)
		words := strings.Fields(p[1])
		last := singular(words[len(words)-1])
		if !attributes[last] && last != "point" && last != "factor" && last != "complexity" {
			return m
		}
		return " " + p[2] + " " + p[1] + " " + p[3]
	})
}

// singular is a noun without the ending of its plural.
func singular(w string) string {
	if len(w) < 4 || notPlural[w] || names[w] || !isPlain(w) {
		return w
	}
	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "xes"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "s"):
		return w[:len(w)-1]
	}
	return w
}
