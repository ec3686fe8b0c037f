package compress

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"strings"
)

// Results of different calls that are nearly the same, such as a file that was read as a whole and in part: the newest is kept, and an older one is replaced by
// its difference, line by line, so that nothing of it is lost.

const (
	minNearLines   = 20       // lines of the shortest result that is compared
	maxNearLines   = 5000     // lines of the longest result that is compared
	maxNearResults = 32       // earlier results that a new one is compared with
	minNearShare   = 0.8      // share of the older result's lines that the newer one must have
	maxNearEdits   = 200      // lines that differ, in both together
	maxNearWork    = 16 << 20 // bytes that are compared for one request
	minNearRatio   = 2        // how many times shorter than the result the difference must be
)

// near compares a new result with earlier ones, and keeps it for the comparison with later ones. A result that is the base of another one is not replaced; if
// its call is repeated, the new result becomes the base, if it is near as well.
func (f *finder) near(r *result) {
	if f.without.has(stepNear) {
		return
	}
	n := strings.Count(r.sent, "\n") + 1
	if n > maxNearLines {
		return
	}
	var has lineSet
	for _, old := range f.latest {
		free := old.base == nil || old.base.invocation == r.invocation
		if !free || old.invocation == r.invocation || old.dependents > 0 || old.outdated || old.isOmitted(r.turn) {
			continue
		}
		if f.work += len(old.sent) + len(r.sent); f.work > maxNearWork {
			break
		}
		if has == nil {
			has = newLineSet(r.hashes())
		}
		if mayBeAlike(old.hashes(), n, has) {
			f.replaceByDiff(old, r)
		}
	}
	if n < minNearLines {
		return
	}
	if f.latest = append(f.latest, r); len(f.latest) > maxNearResults {
		f.latest = f.latest[1:]
	}
}

// replaceByDiff replaces an older result by its difference from a newer one, if that is short enough.
func (f *finder) replaceByDiff(old, r *result) {
	was, lines := strings.Split(old.sent, "\n"), strings.Split(r.sent, "\n")
	if !alike(was, lines) {
		return
	}
	text, ok := difference(lines, was)
	if !ok {
		return
	}
	text = fmt.Sprintf("[Nearly the same as the result of %s below. Where this one differed:]%s", reference(r), text)
	if size(text)*minNearRatio > old.changes.size {
		return
	}
	hadBase := old.base != nil
	if hadBase {
		old.base.dependents--
	}
	old.base, r.needed = r, true
	r.dependents++
	old.changes.add(change{from: r.turn, replacement: text, step: stepNear, refers: r.turn, must: hadBase})
}

var lineSeed = maphash.MakeSeed()

// hashes are those of the result's lines.
func (r *result) hashes() []uint64 {
	if r.lines == nil {
		r.lines = make([]uint64, 0, strings.Count(r.sent, "\n")+1)
		for line := range strings.SplitSeq(r.sent, "\n") {
			r.lines = append(r.lines, maphash.String(lineSeed, line))
		}
	}
	return r.lines
}

// lineSet is a Bloom filter of hashes of lines: mayHave may be true for one that was not added.
type lineSet []uint64

func newLineSet(hashes []uint64) lineSet {
	s := make(lineSet, 1<<bits.Len(uint(len(hashes)/4))) // at least 16 bits for each
	for _, h := range hashes {
		s[s.at(h)] |= 1 << (h & 63)
	}
	return s
}

// at is the index of a hash; the length is a power of two.
func (s lineSet) at(h uint64) int { return int(h>>32) & (len(s) - 1) }

func (s lineSet) mayHave(h uint64) bool { return s[s.at(h)]&(1<<(h&63)) != 0 }

// mayBeAlike reports whether most lines of an older result may be among the n lines of a newer one. False is exact. It is a fast check before alike, since few
// results are.
func mayBeAlike(was []uint64, n int, has lineSet) bool {
	minCommon := minNearShare * float64(len(was))
	common := len(was)
	if float64(min(common, n)) < minCommon {
		return false
	}
	for _, h := range was {
		if has.mayHave(h) {
			continue
		}
		if common--; float64(common) < minCommon {
			return false
		}
	}
	return true
}

// alike reports whether most lines of an older result are in a newer one.
func alike(was, lines []string) bool {
	has := make(map[string]int, len(lines))
	for _, line := range lines {
		has[line]++
	}
	common := 0
	for _, line := range was {
		if has[line] > 0 {
			has[line]--
			common++
		}
	}
	return float64(common) >= minNearShare*float64(len(was))
}

// difference describes the hunks between two results; ok is false if too much differs. Lines are counted from 1.
func difference(lines, was []string) (text string, ok bool) {
	hunks, ok := diff(lines, was)
	var b strings.Builder
	for _, h := range hunks {
		switch {
		case h.from == h.to:
			fmt.Fprintf(&b, "\nafter line %d there, also:", h.from)
		case len(h.was) == 0:
			fmt.Fprintf(&b, "\nlines %d-%d there: not here", h.from+1, h.to)
		default:
			fmt.Fprintf(&b, "\nlines %d-%d there, instead:", h.from+1, h.to)
		}
		for _, line := range h.was {
			b.WriteString("\n> " + line)
		}
	}
	return b.String(), ok
}

// hunk is lines[from:to] of one text that are replaced by was in another.
type hunk struct {
	from, to int
	was      []string
}

// diff is the shortest list of hunks that makes b of a (Myers, "An O(ND) difference algorithm", 1986); ok is false if it has more than nearEdits lines.
func diff(a, b []string) (hunks []hunk, ok bool) {
	head := 0
	for head < min(len(a), len(b)) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < min(len(a), len(b))-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	trace, ok := edits(a[head:len(a)-tail], b[head:len(b)-tail])
	if !ok {
		return nil, false
	}
	x, y := len(a)-tail-head, len(b)-tail-head
	for d := len(trace) - 1; d >= 0 && (x > 0 || y > 0); d-- {
		px, py := previous(trace[d], d, x, y)
		for x > px && y > py && x > 0 && y > 0 && a[head+x-1] == b[head+y-1] { // the lines that both have
			x, y = x-1, y-1
		}
		if d > 0 {
			hunks = prepend(hunks, head+px, head+x, b[head+py:head+y])
		}
		x, y = px, py
	}
	slices.Reverse(hunks)
	return hunks, true
}

// edits are the furthest points that 0, 1, 2 … edits reach on each diagonal k = x - y, as they were before each further edit; ok is false if maxNearEdits do
// not suffice.
func edits(a, b []string) (trace [][]int, ok bool) {
	const width = 2*maxNearEdits + 3
	v := make([]int, width)
	for d := 0; d <= maxNearEdits; d++ {
		trace = append(trace, slices.Clone(v[maxNearEdits+1-d-1:maxNearEdits+1+d+2]))
		for k := -d; k <= d; k += 2 {
			var x int
			if at := maxNearEdits + 1 + k; k == -d || k != d && v[at-1] < v[at+1] {
				x = v[at+1]
			} else {
				x = v[at-1] + 1
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			v[maxNearEdits+1+k] = x
			if x >= len(a) && y >= len(b) {
				return trace, true
			}
		}
	}
	return nil, false
}

// previous is the point from which the d-th edit leads to a point; v are the points before that edit.
func previous(v []int, d, x, y int) (px, py int) {
	if d == 0 {
		return 0, 0
	}
	k, at := x-y, func(k int) int { return v[k+d+1] }
	if k == -d || k != d && at(k-1) < at(k+1) {
		k++
	} else {
		k--
	}
	px = at(k)
	return px, px - k
}

// prepend adds a hunk before the others, which come in reverse; hunks that touch become one.
func prepend(hunks []hunk, from, to int, was []string) []hunk {
	if n := len(hunks); n > 0 && hunks[n-1].from == to {
		last := &hunks[n-1]
		last.from, last.was = from, append(slices.Clone(was), last.was...)
		return hunks
	}
	return append(hunks, hunk{from, to, slices.Clone(was)})
}
