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

// Numbering plans. What numbers of a country are valid is the metadata of Google's libphonenumber: patterns of digits. Those of a country are compiled into tables that are
// walked a digit at a time when a number of it is first read. The library of which the tests take the metadata, and with which they compare, reads all of it when the program
// starts, and takes many microseconds for a number; a text may be made of what looks like phone numbers.

// plansText has a line for each region: country code, name, what is dialled before a country code, what is dialled before a number, what that becomes, leading digits, all numbers,
// the lengths of numbers that are dialled only there, and kinds of numbers, of which each is one. Between them are semicolons. Regions of a code are in the library's order.
//
//go:embed plans.txt
var plansText string

// Fields of a line.
const (
	fieldCode = iota
	fieldName
	fieldAbroad
	fieldTrunk
	fieldBecomes
	fieldLeading
	fieldGeneral
	fieldLocal
	fieldKinds
)

// plansIndex is where to find a country's lines, and the country code of a region.
var plansIndex = sync.OnceValue(func() *planIndex {
	x := &planIndex{codes: map[string]int{}}
	for line := range strings.Lines(plansText) {
		f := strings.Split(line, ";")
		code, err := strconv.Atoi(f[fieldCode])
		if err != nil || code <= 0 || code >= len(plans) {
			continue // the test of plans.txt finds none
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

// world is the name of a region that is no country's.
const world = "001"

// table is a pattern of digits as an automaton. State 0 is its beginning.
type table struct {
	next    [][10]int16 // by state and digit; -1 for none
	accepts []bool      // by state
	lengths uint64      // that its numbers may have, as bits; 0: any
}

// match reports whether digits follow the pattern as a whole.
func (t *table) match(digits []byte) bool {
	return (t.lengths == 0 || t.lengths>>min(len(digits), 63)&1 == 1) && t.follows(digits)
}

// follows is match, whatever the length.
func (t *table) follows(digits []byte) bool {
	at := int16(0)
	for _, c := range digits {
		if at = t.next[at][c-'0']; at < 0 {
			return false
		}
	}
	return t.accepts[at]
}

// begins reports whether digits begin with what follows the pattern.
func (t *table) begins(digits []byte) bool {
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
	code     int // of its country
	name     string
	parsing  *parsing
	rewrites bool    // what is dialled there may become other digits
	abroad   table   // what is dialled before a country code
	trunk    table   // what is dialled before a number of the region
	prefix   string  // the same, where it is always the same digits
	leading  *table  // of its numbers among those of its country code; nil if that is not said
	general  table   // all numbers
	local    uint64  // lengths, as bits, of numbers that are dialled only in a part of the region
	kinds    []table // of which a number is one
}

func (r *region) valid(digits []byte) bool {
	return r.general.match(digits) && slices.ContainsFunc(r.kinds, func(t table) bool { return t.match(digits) })
}

// plan is what numbers behind a country code are valid.
type plan struct {
	regions []region // in the library's order; none: there is no such code
}

// plans are by country code, made when a number of one is read.
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

// valid reports whether digits are a number of the plan.
func (p *plan) valid(digits []byte) bool {
	for i := range p.regions {
		r := &p.regions[i]
		switch {
		case r.leading != nil && len(p.regions) > 1:
			if r.leading.begins(digits) {
				return r.valid(digits)
			}
		case r.valid(digits):
			return true
		}
	}
	return false
}

// regionOf is the numbering plan of a region; nil if there is none of that name.
func regionOf(name string) *region {
	code := plansIndex().codes[name]
	if code == 0 {
		return nil
	}
	regions := planOf(code).regions
	return &regions[slices.IndexFunc(regions, func(r region) bool { return r.name == name })]
}

// dialled reports whether digits are a valid number of the region as it is dialled there. known is false where they have to be parsed: what is dialled before a
// number is stripped by rules, of which the common ones are here.
func (r *region) dialled(digits []byte) (valid, known bool) {
	switch {
	case r.rewrites, r.abroad.begins(digits), bytes.HasPrefix(digits, strconv.AppendInt(nil, int64(r.code), 10)):
		return false, false
	case !r.trunk.begins(digits):
		return r.valid(digits), true
	case r.prefix != "" && r.valid(digits[len(r.prefix):]):
		return true, true
	}
	for from := range digits { // no end of it is valid: nothing that is stripped helps
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

// newRegion reads a line of plans.txt. A test reads all of them: of what is not understood, no number is valid.
func newRegion(code int, line string) region {
	f := strings.Split(strings.TrimSuffix(line, "\n"), ";")
	r := region{code: code, name: f[fieldName], prefix: f[fieldTrunk], local: lengthsOf(f[fieldLocal])}
	r.parsing = &parsing{abroad: f[fieldAbroad], trunk: f[fieldTrunk], becomes: f[fieldBecomes]}
	var plain [2]bool
	r.abroad, plain[0] = prefixTable(f[fieldAbroad])
	r.trunk, plain[1] = prefixTable(f[fieldTrunk])
	r.rewrites = f[fieldBecomes] != "" || plain != [2]bool{true, true}
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

// prefixTable compiles a pattern of what begins a number. An empty one begins none.
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

// lengthsOf reads lengths as bits: 7,8,10.
func lengthsOf(text string) (bits uint64) {
	for n := range strings.SplitSeq(text, ",") {
		if n, err := strconv.Atoi(n); err == nil {
			bits |= 1 << min(n, 63)
		}
	}
	return bits
}

// maxStates bounds a table. Those of the metadata have less than a tenth of them.
const maxStates = 4096

// newTable compiles a pattern; ok is false for one that is not made of digits alone.
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

// tableBuilder makes the states of a table: sets of instructions of the pattern's program.
type tableBuilder struct {
	prog    *syntax.Prog
	sets    [][]uint32
	known   map[string]int16
	next    [][10]int16
	accepts []bool
	failed  bool
}

// state is the number of the state that some instructions lead to; -1 for none of them.
func (b *tableBuilder) state(from []uint32) int16 {
	var set []uint32
	for len(from) > 0 {
		pc := from[len(from)-1]
		from = from[:len(from)-1]
		if slices.Contains(set, pc) {
			continue
		}
		set = append(set, pc)
		switch inst := &b.prog.Inst[pc]; inst.Op { //nolint:exhaustive // those of digits are read when a digit comes
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
	switch i.Op { //nolint:exhaustive // the others read nothing
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}
