package pii

import (
	"bytes"
	_ "embed" // plans.txt
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Numbering plans: valid numbers by country, from the metadata of Google's libphonenumber, which has patterns of digits. A country's patterns are compiled into
// automata when its first number is checked. The Go library, from which the tests take the metadata and with which they compare, parses all metadata when the
// program starts, and takes many microseconds per number, which is too slow for texts that consist of possible phone numbers.

// plansText has one line per region, with fields separated by semicolons: country code, name, international prefix, national prefix, its replacement, leading
// digits, the general pattern, lengths of numbers that are only dialled locally, and patterns of the kinds of numbers, of which a valid number matches one.
// Regions of a country code are in the library's order.
//
//go:embed plans.txt
var plansText string

// Fields of a line.
const (
	fieldCode = iota
	fieldName
	fieldInternational
	fieldTrunk
	fieldReplacement
	fieldLeading
	fieldGeneral
	fieldLocal
	fieldKinds
)

// plansIndex returns the lines of each country code, and the country code of each region.
var plansIndex = sync.OnceValue(func() *planIndex {
	x := &planIndex{codes: map[string]int{}}
	for line := range strings.Lines(plansText) {
		f := strings.Split(line, ";")
		code, err := strconv.Atoi(f[fieldCode])
		if err != nil || code <= 0 || code >= len(plans) {
			continue // a test of plans.txt excludes it
		}
		x.lines[code] = append(x.lines[code], line)
		if f[fieldName] != world {
			x.codes[f[fieldName]] = code
		}
	}
	return x
})

type planIndex struct {
	lines [1000][]string // by country code
	codes map[string]int // by region
}

// world is the name of regions that are no countries.
const world = "001"

// table is a pattern of digits as an automaton. State 0 is the start.
type table struct {
	next    [][10]int16 // next state, by state and digit; -1 for none
	accepts []bool      // by state
	lengths uint64      // allowed lengths, as bits; 0: any
}

// match reports whether all digits match the pattern, with an allowed length.
func (t *table) match(digits []byte) bool {
	return (t.lengths == 0 || t.lengths>>min(len(digits), 63)&1 == 1) && t.matchAnyLength(digits)
}

// matchAnyLength is match for any length.
func (t *table) matchAnyLength(digits []byte) bool {
	at := int16(0)
	for _, c := range digits {
		if at = t.next[at][c-'0']; at < 0 {
			return false
		}
	}
	return t.accepts[at]
}

// matchesPrefix reports whether a prefix of digits matches the pattern.
func (t *table) matchesPrefix(digits []byte) bool {
	at := int16(0)
	for i := 0; !t.accepts[at]; i++ {
		if i == len(digits) {
			return false
		}
		if at = t.next[at][digits[i]-'0']; at < 0 {
			return false
		}
	}
	return true
}

// region is the numbering plan of a country or territory.
type region struct {
	code          int // country code
	name          string
	parsing       *parsing
	rewrites      bool    // dialled digits may be replaced by others
	international table   // international prefix
	trunk         table   // national prefix
	prefix        string  // national prefix, if it is a constant
	leading       *table  // leading digits of the region's numbers within its country code; nil if unknown
	general       table   // general pattern of all numbers
	local         uint64  // lengths of numbers that are only dialled locally, as bits
	kinds         []table // patterns of kinds of numbers; a valid number matches one
}

func (r *region) valid(digits []byte) bool {
	return r.general.match(digits) && slices.ContainsFunc(r.kinds, func(t table) bool { return t.match(digits) })
}

// plan is the numbering plan of a country code.
type plan struct {
	regions []region // in the library's order; none: the code does not exist
}

// plans are by country code, created at first use.
var plans [1000]atomic.Pointer[plan]

func planOf(code int) *plan {
	at := &plans[code]
	p := at.Load()
	if p == nil {
		p = newPlan(code)
		at.Store(p)
	}
	return p
}

// valid reports whether digits are a valid number of the plan.
func (p *plan) valid(digits []byte) bool {
	for i := range p.regions {
		r := &p.regions[i]
		switch {
		case r.leading != nil && len(p.regions) > 1:
			if r.leading.matchesPrefix(digits) {
				return r.valid(digits)
			}
		case r.valid(digits):
			return true
		}
	}
	return false
}

// regionOf returns the numbering plan of a region; nil if there is none.
func regionOf(name string) *region {
	code := plansIndex().codes[name]
	if code == 0 {
		return nil
	}
	regions := planOf(code).regions
	return &regions[slices.IndexFunc(regions, func(r region) bool { return r.name == name })]
}

// dialled reports whether digits are a valid number of the region as dialled there. known is false if they have to be parsed: only the common rules for prefixes
// are implemented here.
func (r *region) dialled(digits []byte) (valid, known bool) {
	switch {
	case r.rewrites, r.international.matchesPrefix(digits), bytes.HasPrefix(digits, strconv.AppendInt(nil, int64(r.code), 10)):
		return false, false
	case !r.trunk.matchesPrefix(digits):
		return r.valid(digits), true
	case r.prefix != "" && r.valid(digits[len(r.prefix):]):
		return true, true
	}
	for from := range digits { // no suffix is valid, so no prefix can be stripped
		if r.valid(digits[from:]) {
			return false, false
		}
	}
	return false, true
}

func newPlan(code int) *plan {
	p := &plan{}
	for _, line := range plansIndex().lines[code] {
		p.regions = append(p.regions, newRegion(code, line))
	}
	return p
}

// newRegion parses a line of plans.txt. An unsupported pattern matches no number; a test excludes them.
func newRegion(code int, line string) region {
	f := strings.Split(strings.TrimSuffix(line, "\n"), ";")
	r := region{code: code, name: f[fieldName], prefix: f[fieldTrunk], local: lengthsOf(f[fieldLocal])}
	r.parsing = &parsing{international: f[fieldInternational], trunk: f[fieldTrunk], replacement: f[fieldReplacement]}
	var plain [2]bool
	r.international, plain[0] = prefixTable(f[fieldInternational])
	r.trunk, plain[1] = prefixTable(f[fieldTrunk])
	r.rewrites = f[fieldReplacement] != "" || plain != [2]bool{true, true}
	if strings.Trim(r.prefix, "0123456789") != "" {
		r.prefix = ""
	}
	if begin := f[fieldLeading]; begin != "" {
		t, _ := newTable(begin)
		r.leading = &t
	}
	r.general = tableOf(f[fieldGeneral])
	for _, kind := range f[fieldKinds:] {
		r.kinds = append(r.kinds, tableOf(kind))
	}
	return r
}

// prefixTable compiles the pattern of a prefix. An empty pattern matches none.
func prefixTable(pattern string) (table, bool) {
	if pattern == "" {
		return table{next: [][10]int16{{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1}}, accepts: []bool{false}}, true
	}
	return newTable(pattern)
}

// tableOf compiles a description of numbers: lengths and a pattern.
func tableOf(description string) table {
	lengths, pattern, _ := strings.Cut(description, " ")
	t, _ := newTable(pattern)
	t.lengths = lengthsOf(lengths)
	return t
}

// lengthsOf parses lengths, such as 7,8,10, into bits.
func lengthsOf(text string) (bits uint64) {
	for n := range strings.SplitSeq(text, ",") {
		if n, err := strconv.Atoi(n); err == nil {
			bits |= 1 << min(n, 63)
		}
	}
	return bits
}

// maxStates is the maximum number of states of a table. The metadata needs less than a tenth of it.
const maxStates = 4096

// newTable compiles a pattern; ok is false if it is not a pattern of digits.
func newTable(pattern string) (t table, ok bool) {
	tree, err := syntax.Parse("(?:"+pattern+")", syntax.Perl)
	if err != nil {
		return t, false
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return t, false
	}
	b := tableBuilder{prog: prog, known: map[string]int16{}}
	b.state([]uint32{uint32(prog.Start)}) //nolint:gosec // an index
	for i := 0; i < len(b.sets) && !b.failed; i++ {
		for digit := range 10 {
			var to []uint32
			for _, pc := range b.sets[i] {
				if inst := &prog.Inst[pc]; isRune(inst) && inst.MatchRune(rune('0'+digit)) {
					to = append(to, inst.Out)
				}
			}
			next := b.state(to)
			b.next[i][digit] = next
		}
	}
	return table{next: b.next, accepts: b.accepts}, !b.failed
}

// tableBuilder builds the states of a table, which are sets of instructions of the pattern's program.
type tableBuilder struct {
	prog    *syntax.Prog
	sets    [][]uint32
	known   map[string]int16
	next    [][10]int16
	accepts []bool
	failed  bool
}

// state returns the number of the state for some instructions; -1 for none.
func (b *tableBuilder) state(from []uint32) int16 {
	var set []uint32
	for len(from) > 0 {
		pc := from[len(from)-1]
		from = from[:len(from)-1]
		if slices.Contains(set, pc) {
			continue
		}
		set = append(set, pc)
		switch inst := &b.prog.Inst[pc]; inst.Op { //nolint:exhaustive // the others consume a digit
		case syntax.InstAlt, syntax.InstAltMatch:
			from = append(from, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			from = append(from, inst.Out)
		case syntax.InstEmptyWidth:
			b.failed = true
		}
	}
	slices.Sort(set)
	name := make([]byte, 0, 4*len(set))
	accepts, lives := false, false
	for _, pc := range set {
		name = binary.LittleEndian.AppendUint32(name, pc)
		accepts = accepts || b.prog.Inst[pc].Op == syntax.InstMatch
		lives = lives || isRune(&b.prog.Inst[pc])
	}
	if !accepts && !lives && len(b.sets) > 0 {
		return -1
	}
	if n, ok := b.known[string(name)]; ok {
		return n
	}
	n := int16(len(b.sets)) //nolint:gosec // at most maxStates
	if len(b.sets) == maxStates {
		b.failed = true
		return -1
	}
	b.known[string(name)] = n
	b.sets, b.next, b.accepts = append(b.sets, set), append(b.next, [10]int16{}), append(b.accepts, accepts)
	return n
}

func isRune(i *syntax.Inst) bool {
	switch i.Op { //nolint:exhaustive // the others consume nothing
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}
