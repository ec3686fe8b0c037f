package pii

import (
	"slices"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/internal/jsonx"
)

// Groups of a card's number that are numbers of JSON: {"card": [4111, 1111, 1111, 1111]}. Lists of numbers of four digits are common, one of ten passes the check
// digit, and a group is replaced in the whole request. So a name must say that they are one card's number and nothing else ("cards" and "cardinality" do not), and an array must have
// the groups alone. A group that begins with 0 has one digit less; it counts, and is too short to be masked.

// numberGroups are the numbers beside each other that may be the groups of a card's number.
type numberGroups struct {
	around []bool // whether the names of the objects and arrays around a value are a card number's
	last   []Span // the numbers before, as far as they may be groups
	digits []string
	others bool // the array has something else, too
}

// enter begins an object or an array.
func (g *numberGroups) enter(key []byte) {
	g.reset()
	inside := len(g.around) > 0 && g.around[len(g.around)-1]
	g.around = append(g.around, isCardNumber(key) || inside && (len(key) == 0 || isPartName(key)))
}

// leave ends one, and appends the card's number that was an array of its own.
func (g *numberGroups) leave(out []Span) []Span {
	if !g.others {
		out = g.card(out)
	}
	g.reset()
	g.around = g.around[:len(g.around)-1]
	return out
}

// scalar reads a value, and appends the card's number that it is the last group of, as a member of an object.
func (g *numberGroups) scalar(at jsonx.Step, v jsonx.Value, out []Span) []Span {
	inside := len(g.around) > 0 && g.around[len(g.around)-1]
	member := len(at.Key) > 0
	named := isCardNumber(at.Key) || inside && (!member || isPartName(at.Key))
	if !named || !isNumberGroup(v) {
		g.others = g.others || !member
		g.last, g.digits = g.last[:0], g.digits[:0]
		return out
	}
	g.last, g.digits = append(g.last, Span{v.At, v.At + len(v.Raw), Card, 0.8}), append(g.digits, string(v.Raw))
	if member {
		if n := len(out); len(g.card(out)) > n {
			out = g.card(out)
			g.reset()
		}
	}
	return out
}

// card appends the groups if they are a card's number. One of three digits is none, since the vault knows no value so short.
func (g *numberGroups) card(out []Span) []Span {
	for _, layout := range layouts[:3] {
		if len(g.digits) != len(layout) {
			continue
		}
		number := ""
		for i, size := range layout {
			short := size - len(g.digits[i])
			if short < 0 || short > 1 || short == 1 && i == 0 {
				number = ""
				break
			}
			number += strings.Repeat("0", short) + g.digits[i]
		}
		if number == "" || !isCard(number) {
			continue
		}
		for _, s := range g.last {
			if s.End-s.Start >= leastGroup {
				out = append(out, s)
			}
		}
		return out
	}
	return out
}

// leastGroup is how many digits a group has at least that is masked.
const leastGroup = 4

func (g *numberGroups) reset() { g.last, g.digits, g.others = g.last[:0], g.digits[:0], false }

// isNumberGroup reports whether a value is a number of three to six digits.
func isNumberGroup(v jsonx.Value) bool {
	return v.Kind() == jsonx.Number && len(v.Raw) >= 3 && len(v.Raw) <= 6 && !slices.ContainsFunc(v.Raw, func(c byte) bool { return classes[c] != digit })
}

// isCardNumber reports whether the name of a member says that its value, and nothing else, is the number of a payment card: card, cardNumber, pan_2.
func isCardNumber(key []byte) bool { return slices.Contains(cardNumberNames, plainName(key)) }

// isPartName reports whether the name of a member says that it is a part of what is around it: part1, digits, a.
func isPartName(key []byte) bool {
	name := plainName(key)
	return len(name) <= 1 || slices.Contains(partNames, name)
}

// plainName is the name of a member in small letters, without digits and what separates its words; "-" for a long one.
func plainName(key []byte) string {
	if len(key) > 64 {
		return "-"
	}
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf && (r < 'a' || r > 'z') {
			return -1
		}
		return r
	}, strings.ToLower(string(key)))
}

var cardNumberNames = []string{
	"card", "cardnumber", "cardno", "cardnum", "cardpart", "cardgroup", "cardblock", "cardsegment", "carddigits", "cardparts", "cardgroups", "cardblocks", "cardsegments", "creditcard",
	"creditcardnumber", "debitcard", "debitcardnumber", "paymentcard", "paymentcardnumber", "bankcard", "bankcardnumber", "pan", "cc", "ccnumber", "ccnum", "ccno", "ccpart",
	"karte", "kartennummer", "kreditkarte", "kreditkartennummer", "tarjeta", "numerotarjeta", "numerodetarjeta", "númerodetarjeta", "cartebancaire", "numerodecarte", "numérodecarte",
	"カード番号", "クレジットカード番号", "卡号", "银行卡号", "信用卡号",
}

var partNames = []string{"part", "parts", "group", "groups", "block", "blocks", "segment", "segments", "digits", "number", "numbers", "no", "num", "value", "values", "first", "second", "third", "fourth", "last"}
