package pii

import (
	"bytes"
	"regexp"
	"strconv"
	"sync"
)

// parsing is how what is dialled in a region becomes a number: patterns of what is dialled before it. They are compiled when they are first needed.
type parsing struct {
	abroad, trunk string // patterns of what is dialled before a country code, and before a number
	becomes       string // what takes the place of a trunk whose last group matches

	once              sync.Once
	abroadRE, trunkRE *regexp.Regexp
}

func (p *parsing) compile() {
	p.once.Do(func() {
		p.abroadRE, _ = regexp.Compile("^(?:" + p.abroad + ")") // a test compiles all of them
		if p.trunk != "" {
			p.trunkRE, _ = regexp.Compile("^(?:" + p.trunk + ")")
		}
	})
}

// parses reports whether digits are a valid number of a region as it is dialled there. It follows the rules of libphonenumber (Apache License 2.0) for texts of digits: a
// number behind what is dialled before a country code, else one behind the region's own country code, if that makes it valid or it would be too long, else one of the region;
// each without what is dialled before it, if its length is possible then.
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

// minDialled is how many digits a number has at least.
const minDialled = 2

// countryOf is the region whose rules are for a number, and the number without its country code. ok is false if it begins as one of a country that there is not.
func (r *region) countryOf(digits []byte) (of *region, number []byte, ok bool) {
	if m := r.parsing.abroadRE.FindIndex(digits); len(m) == 2 && (m[1] == len(digits) || digits[m[1]] != '0') {
		return abroad(digits[m[1]:])
	}
	code := strconv.AppendInt(nil, int64(r.code), 10)
	if !bytes.HasPrefix(digits, code) {
		return r, digits, true
	}
	number = r.withoutTrunk(digits[len(code):])
	if !r.general.follows(digits) && r.general.follows(number) || r.tooLong(len(digits)) {
		return &planOf(r.code).regions[0], number, true
	}
	return r, digits, true
}

// abroad is the main region of a country code that digits begin with, and the number behind it.
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

// withoutTrunk is a number without what is dialled before it, unless only the whole is a number.
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
	if last := m[len(m)-2]; r.parsing.becomes != "" && last >= 0 {
		short = r.parsing.trunkRE.ReplaceAll(number, []byte(r.parsing.becomes))
	}
	if r.general.follows(number) && !r.general.follows(short) {
		return number
	}
	return short
}

// mayHave reports whether numbers of the region may have n digits, or n are too many for one.
func (r *region) mayHave(n int) bool {
	return r.local>>n&1 == 0 && (r.general.lengths>>n&1 == 1 || r.tooLong(n))
}

// tooLong reports whether n digits are too many for a number of the region.
func (r *region) tooLong(n int) bool {
	return r.local>>n&1 == 0 && r.general.lengths>>n == 0
}
