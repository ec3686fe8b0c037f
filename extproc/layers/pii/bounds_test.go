package pii_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/internal/fault"
)

// result is a conversation with a tool's result.
func result(text string) string {
	return `{"role":"user","content":"look"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"c","content":` + strconv.Quote(text) + `}`
}

// customers is a JSON list of about n bytes, with two values in each row.
func customers(size int) string {
	var b strings.Builder
	b.WriteByte('[')
	for n := 0; b.Len() < size; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"mail":"customer.%d@example.org","phone":"+49 30 901%05d","note":"the parcel left the depot"}`, n, n, n%100_000)
	}
	return b.String() + "]"
}

// allocated is the number of bytes that masking a text allocates, without parsing it.
func allocated(t *testing.T, text string) int64 {
	t.Helper()
	l, x := newLayer(layer.Mask), exchange(t, result(text))
	if _, err := x.Transcript(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := run(t, l, x); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if body := string(x.Request.Doc.Bytes); strings.Contains(body, "@example.org") || strings.Count(body, "<EMAIL_") < len(text)/150 {
		t.Errorf("%d bytes: not all is masked", len(text))
	}
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// TestF01EightMegabytesAreMaskedInProportion: eight megabytes with a hundred and fifty thousand values take four times the memory of two, and a bounded number of
// bytes for each byte of text. It is not parallel, since it measures allocations.
func TestF01EightMegabytesAreMaskedInProportion(t *testing.T) {
	small, large := customers(2<<20), customers(8<<20)
	least, most := allocated(t, small), allocated(t, large)
	t.Logf("%d and %d bytes for %d and %d", least, most, len(small), len(large))
	if most > 5*least || most > 60*int64(len(large)) {
		t.Errorf("%d bytes take %d of memory, and %d take %d", len(small), least, len(large), most)
	}
}

// TestF01WhatCannotBeMaskedInProportionIsNotSent: values and texts that are constructed for a quadratic number of comparisons.
func TestF01WhatCannotBeMaskedInProportionIsNotSent(t *testing.T) {
	x := exchange(t, result(manyAlike()))
	before := x.Request
	f := fault.From(run(t, newLayer(layer.Mask), x))
	if f.Kind != fault.TooLarge || !strings.Contains(f.Error(), "secret") || x.Request != before {
		t.Errorf("%v", f)
	}
}

// manyAlike is a text with long values with a common prefix, and many repetitions of that prefix.
func manyAlike() string {
	var b strings.Builder
	for n := range 1500 {
		b.WriteString("sk-proj-9fKq2LmX7vTb4RzW8nYc" + strings.Repeat("4zQ", n) + " ")
	}
	b.WriteString(strings.Repeat("sk-proj-9f! ", 400_000))
	return b.String()
}
