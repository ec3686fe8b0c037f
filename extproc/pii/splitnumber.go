package pii

import (
	"slices"
	"strings"
	"unicode/utf8"

	"bardo.money/gateway/internal/jsonx"
)

// Groups of a card number that are JSON numbers: {"card": [4111, 1111, 1111, 1111]}. Lists of numbers of four digits are common, one of ten passes the check
// digit, and a group is replaced in the whole request. The name must therefore be that of a card number ("cards" and "cardinality" are not), and an array must
// have only the groups. A group that begins with 0 has one digit less; it is counted, but too short to be masked.

// numberGroups collects adjacent numbers that may be the groups of a card number.
type numberGroups struct {
	around []bool // whether the enclosing objects and arrays have names of a card number
	last   []Span // preceding numbers that may be groups
	digits []string
	others bool // the array has other values, too
}

// enter handles the start of an object or array.
func (g *numberGroups) enter(key []byte) {
	g.reset()
	inside := len(g.around) > 0 && g.around[len(g.around)-1]
	g.around = append(g.around, isCardNumber(key) || inside && (len(key) == 0 || isPartName(key)))
}

// leave handles its end, and appends the card number if the whole array was one.
func (g *numberGroups) leave(out []Span) []Span {
	if !g.others {
		out = g.card(out)
	}
	g.reset()
	g.around = g.around[:len(g.around)-1]
	return out
}

// scalar handles a value, and appends a card number in members of an object when its last group is read.
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

// card appends the groups if they are a card number, without groups below minGroupDigits digits, which the vault cannot mask.
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
			if s.End-s.Start >= minGroupDigits {
				out = append(out, s)
			}
		}
		return out
	}
	return out
}

// minGroupDigits is the minimum number of digits of a masked group.
const minGroupDigits = 4

func (g *numberGroups) reset() { g.last, g.digits, g.others = g.last[:0], g.digits[:0], false }

// isNumberGroup reports whether a value is a number of three to six digits.
func isNumberGroup(v jsonx.Value) bool {
	return v.Kind() == jsonx.Number && len(v.Raw) >= 3 && len(v.Raw) <= 6 && !slices.ContainsFunc(v.Raw, func(c byte) bool { return classes[c] != digit })
}

// isCardNumber reports whether the name of a member is that of exactly one card number: card, cardNumber, pan_2.
func isCardNumber(key []byte) bool { return slices.Contains(cardNumberNames, plainName(key)) }

// isPartName reports whether the name of a member is that of a part of its parent: part1, digits, a.
func isPartName(key []byte) bool {
	name := plainName(key)
	return len(name) <= 1 || slices.Contains(partNames, name)
}

// plainName returns the name of a member in lower case, without digits and separators; "-" for a long one.
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
