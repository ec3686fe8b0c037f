package pii

import (
	"bytes"
	"regexp"
	"strconv"
	"sync"
)

// parsing has the patterns of prefixes in a region, which are stripped from dialled digits. They are compiled at first use.
type parsing struct {
	international, trunk string // patterns of the international and the national prefix
	replacement          string // replacement of a national prefix whose last group matches

	once              sync.Once
	abroadRE, trunkRE *regexp.Regexp
}

func (p *parsing) compile() {
	p.once.Do(func() {
		p.abroadRE, _ = regexp.Compile("^(?:" + p.international + ")") // a test compiles all of them
		if p.trunk != "" {
			p.trunkRE, _ = regexp.Compile("^(?:" + p.trunk + ")")
		}
	})
}

// parses reports whether digits are a valid number of a region as dialled there. It follows the rules of libphonenumber (Apache License 2.0) for texts of digits: a
// number after the international prefix; else one after the region's country code, if that makes it valid or it would be too long; else one of the region; each
// without the national prefix, if its length is possible then.
func (r *region) parses(digits []byte) bool {
	r.parsing.compile()
	main, number, ok := r.countryOf(digits)
	if !ok || main.code != r.code || len(number) < minDialled {
		return false
	}
	if short := main.withoutTrunk(number); main.mayHave(len(short)) {
		number = short
	}
	return len(number) >= minDialled && r.valid(number)
}

// minDialled is the minimum number of digits of a number.
const minDialled = 2

// countryOf returns the region whose rules apply to a number, and the number without its country code. ok is false for a country code that does not exist.
func (r *region) countryOf(digits []byte) (of *region, number []byte, ok bool) {
	if m := r.parsing.abroadRE.FindIndex(digits); len(m) == 2 && (m[1] == len(digits) || digits[m[1]] != '0') {
		return abroad(digits[m[1]:])
	}
	code := strconv.AppendInt(nil, int64(r.code), 10)
	if !bytes.HasPrefix(digits, code) {
		return r, digits, true
	}
	number = r.withoutTrunk(digits[len(code):])
	if !r.general.matchAnyLength(digits) && r.general.matchAnyLength(number) || r.tooLong(len(digits)) {
		return &planOf(r.code).regions[0], number, true
	}
	return r, digits, true
}

// abroad returns the main region of the country code at the start of digits, and the number after it.
func abroad(digits []byte) (of *region, number []byte, ok bool) {
	if len(digits) <= minDialled {
		return nil, nil, false
	}
	code := 0
	for n := 1; n <= 3 && n <= len(digits); n++ {
		if code = code*10 + int(digits[n-1]-'0'); code == 0 {
			return nil, nil, false
		}
		if p := planOf(code); len(p.regions) > 0 {
			return &p.regions[0], digits[n:], true
		}
	}
	return nil, nil, false
}

// withoutTrunk returns a number without the national prefix, unless only the whole is a possible number.
func (r *region) withoutTrunk(number []byte) []byte {
	r.parsing.compile()
	if r.parsing.trunkRE == nil || len(number) == 0 {
		return number
	}
	m := r.parsing.trunkRE.FindSubmatchIndex(number)
	if m == nil {
		return number
	}
	short := number[m[1]:]
	if last := m[len(m)-2]; r.parsing.replacement != "" && last >= 0 {
		short = r.parsing.trunkRE.ReplaceAll(number, []byte(r.parsing.replacement))
	}
	if r.general.matchAnyLength(number) && !r.general.matchAnyLength(short) {
		return number
	}
	return short
}

// mayHave reports whether numbers of the region may have n digits, or n is above their maximum.
func (r *region) mayHave(n int) bool {
	return r.local>>n&1 == 0 && (r.general.lengths>>n&1 == 1 || r.tooLong(n))
}

// tooLong reports whether n is above the maximum number of digits in the region.
func (r *region) tooLong(n int) bool {
	return r.local>>n&1 == 0 && r.general.lengths>>n == 0
}
