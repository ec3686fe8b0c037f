package pii

import (
	"slices"
	"strings"

	"bardo.money/gateway/internal/jsonx"
)

// minGroups is the minimum number of groups of a card number.
const minGroups = 3

// splitCards appends the groups of card numbers that a JSON text has in separate, adjacent strings or numbers of an object or array: {"card1": "4111", "card2":
// "1111", …}. Their names, or those around them, must refer to a card, since one of ten lists of such groups passes the check digit.
func (d Detectors) splitCards(text string, masks typeSet, out []Span) []Span {
	if masks&bitOf(Card) == 0 || !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "[") {
		return out
	}
	v, err := jsonx.Parse([]byte(text))
	if err != nil {
		return out
	}
	w := cardGroups{out: out}
	v.Walk(&w)
	return w.out
}

// cardGroups visits a JSON text.
type cardGroups struct {
	out    []Span
	around []bool   // whether the enclosing objects and arrays have names of cards
	last   []string // preceding strings that may be groups of a card number
	spans  []Span   // of last

	numbers numberGroups
}

var _ jsonx.Visitor = (*cardGroups)(nil)

// Enter implements jsonx.Visitor. Members of a card's object belong to the card, too.
func (g *cardGroups) Enter(at jsonx.Step, _ jsonx.Kind, _ bool) bool {
	g.reset()
	g.numbers.enter(at.Key)
	g.around = append(g.around, isOfCard(at.Key) || g.inCard())
	return true
}

// Leave implements jsonx.Visitor.
func (g *cardGroups) Leave() {
	g.reset()
	g.out = g.numbers.leave(g.out)
	g.around = g.around[:len(g.around)-1]
}

// Scalar implements jsonx.Visitor.
func (g *cardGroups) Scalar(at jsonx.Step, v jsonx.Value) {
	g.out = g.numbers.scalar(at, v, g.out)
	if !g.inCard() && !isOfCard(at.Key) || !isGroup(v.Raw) {
		g.reset()
		return
	}
	g.last = append(g.last, string(v.Raw[1:len(v.Raw)-1]))
	g.spans = append(g.spans, Span{v.At + 1, v.At + len(v.Raw) - 1, Card, 0.9})
	for _, layout := range layouts[:3] { // a last group of three digits is too short to be masked
		if n := len(g.last) - len(layout); n >= 0 && sizesAre(g.last[n:], layout) && isCard(strings.Join(g.last[n:], "")) {
			g.out = append(g.out, g.spans[n:]...)
			g.reset()
			return
		}
	}
}

func (g *cardGroups) reset() { g.last, g.spans = g.last[:0], g.spans[:0] }

func (g *cardGroups) inCard() bool { return len(g.around) > 0 && g.around[len(g.around)-1] }

// isGroup reports whether a value is a string of four to six digits.
func isGroup(raw jsonx.Raw) bool {
	if len(raw) < len(`"1234"`) || len(raw) > len(`"123456"`) || raw[0] != '"' {
		return false
	}
	return !slices.ContainsFunc(raw[1:len(raw)-1], func(c byte) bool { return classes[c] != digit })
}

func sizesAre(groups []string, layout []int) bool {
	return slices.EqualFunc(groups, layout, func(s string, n int) bool { return len(s) == n })
}

// isOfCard reports whether the name of a member refers to a payment card: card_number, cardPart1, pan2, cc-3.
func isOfCard(key []byte) bool {
	if len(key) == 0 || len(key) > 64 {
		return false
	}
	name := strings.Trim(strings.ToLower(string(key)), "0123456789_-. ")
	return name == "pan" || name == "cc" || slices.ContainsFunc(cardNames, func(s string) bool { return strings.Contains(name, s) })
}

var cardNames = []string{"card", "karte", "tarjeta", "carte", "カード", "卡号"}
