package hint_test

import (
	"net/url"
	"reflect"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/hint"
	"bardo.money/gateway/internal/header"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// atOrigin returns the hints that another gateway reads.
func atOrigin(t *testing.T, l header.List, object string, relayed bool) (h policy.Hints) {
	t.Helper()
	text, err := hint.Forwarded(l, jsonx.Value{Raw: []byte(object)}, "acct", relayed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := hint.FromHeaders(header.List{{Name: header.Forwarded, Value: text}}, &h); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return h
}

// TestE06EachHintIsForwarded from a header or a body, unless this gateway acts on it. If it has applied them, only facts are.
func TestE06EachHintIsForwarded(t *testing.T) {
	own := map[string]bool{"session_id": true, "dream_cycle_id": true, "surface": true, "profile": true, "scenario": true}
	facts := map[string]bool{
		"golem_id": true, "tick": true, "tick_type": true, "phase": true, "regime": true, "vitality": true, "task_class": true, "security_class": true,
		"privacy_tier": true, "no_cache": true,
	}
	for name, k := range d03 {
		l, object := header.List{{Name: "x-bardo-" + strings.ReplaceAll(name, "_", "-"), Value: k.text}}, `{"`+name+`":`+k.json+`}`
		for _, relayed := range []bool{true, false} {
			want := k.want
			if own[name] || !relayed && !facts[name] {
				want = policy.Hints{}
			}
			if want.GolemID != "" {
				want.GolemID = "acct:" + want.GolemID
			}
			if got := atOrigin(t, l, `{}`, relayed); !reflect.DeepEqual(got, want) {
				t.Errorf("%s in a header, relayed %t: %+v, want %+v", name, relayed, got, want)
			}
			if got := atOrigin(t, nil, object, relayed); !reflect.DeepEqual(got, want) {
				t.Errorf("%s in a body, relayed %t: %+v, want %+v", name, relayed, got, want)
			}
		}
		other := `{"` + name + `":` + k.other + `}`
		if got, want := atOrigin(t, l, other, true), atOrigin(t, l, `{}`, true); !reflect.DeepEqual(got, want) {
			t.Errorf("%s in both: %+v, want the header's %+v", name, got, want)
		}
	}
	for name := range own {
		if _, ok := d03[name]; !ok {
			t.Errorf("%s is no hint", name)
		}
	}
}

// TestE06WhatIsForwardedIsBounded: the number of gateways, and the length of the header.
func TestE06WhatIsForwardedIsBounded(t *testing.T) {
	none := jsonx.Value{Raw: []byte("{}")}
	passed := ""
	for n := range hint.MaxHops {
		var l header.List
		if n > 0 {
			l = header.List{{Name: header.Forwarded, Value: passed}}
		}
		text, err := hint.Forwarded(l, none, "a", true)
		if err != nil {
			t.Fatalf("gateway %d: %v", n, err)
		}
		passed = text
	}
	for _, text := range []string{passed, "hops=-1", "hops=x", "subsystem=risk", "hops=300", "hops=99999999999999999999"} {
		if got, err := hint.Forwarded(header.List{{Name: header.Forwarded, Value: text}}, none, "a", true); err == nil {
			t.Errorf("%q was passed on as %q", text, got)
		}
	}
	long := `{"prefer":["` + strings.Repeat(`tools","`, 3000) + `tools"]}`
	if _, err := hint.Forwarded(nil, jsonx.Value{Raw: []byte(long)}, "a", true); err == nil {
		t.Error("long hints were forwarded")
	}
	if _, err := hint.Forwarded(nil, jsonx.Value{Raw: []byte(long)}, "a", false); err != nil {
		t.Errorf("they are not forwarded: %v", err)
	}
	if got := atOrigin(t, header.List{{Name: "x-bardo-golem-id", Value: strings.Repeat("g", 128)}}, `{}`, true); got.GolemID != "" {
		t.Errorf("an id of another account may begin alike: %q", got.GolemID)
	}
	var h policy.Hints
	for _, text := range []string{"%zz", "hops=1;subsystem=risk", "subsystem=risk&subsystem=curator", "vitality=7", "tick=" + strings.Repeat("1", 17_000)} {
		if _, err := hint.FromHeaders(header.List{{Name: header.Forwarded, Value: text}}, &h); err == nil {
			t.Errorf("%.40q was accepted", text)
		}
	}
}

// FuzzForwarded: what is forwarded of hints that were accepted is accepted by the next gateway.
func FuzzForwarded(f *testing.F) {
	for name, k := range d03 {
		f.Add(name+"="+url.QueryEscape(k.text), `{"`+name+`":`+k.json+`}`)
	}
	f.Fuzz(func(t *testing.T, query, object string) {
		var h, again policy.Hints
		l, v := header.List{{Name: header.Forwarded, Value: "hops=1&" + query}}, jsonx.Value{}
		if doc, err := jsonx.Scan([]byte(`{"bardo":` + object + `}`)); err == nil {
			v = doc.Get("bardo")
		}
		present, err := hint.FromHeaders(l, &h)
		if err != nil || hint.FromBody(v, present, &h) != nil {
			return
		}
		text, err := hint.Forwarded(l, v, "acct", true)
		if err != nil {
			return
		}
		if _, err := hint.FromHeaders(header.List{{Name: header.Forwarded, Value: text}}, &again); err != nil {
			t.Errorf("%q of %s: %v", text, object, err)
		}
		h.GolemID, again.GolemID, h.SessionID, h.DreamCycleID, h.Surface, h.Unknown, again.Unknown = "", "", "", "", "", nil, nil
		h.Profile, h.Scenario = nil, policy.Scenario{}
		if !reflect.DeepEqual(h, again) {
			t.Errorf("%q and %s: %+v, forwarded as %q: %+v", query, object, h, text, again)
		}
	})
}
