package cache_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/header"
)

func TestControl(t *testing.T) {
	const own, standard = "x-bardo-cache", "cache-control"
	free := cache.Control{MaxAge: cache.Unbounded, StaleFor: cache.Unbounded}
	with := func(change func(*cache.Control)) cache.Control {
		c := free
		change(&c)
		return c
	}
	tests := []struct {
		name string
		h    header.List
		want cache.Control
		bad  string // the word that the error names
	}{
		{name: "nothing", want: free},
		{name: "force", h: header.List{{Name: own, Value: "force"}}, want: with(func(c *cache.Control) { c.Force = true })},
		{name: "off", h: header.List{{Name: own, Value: " OFF "}}, want: with(func(c *cache.Control) { c.Off = true })},
		{name: "several", h: header.List{{Name: own, Value: "force, no-cache"}}, want: with(func(c *cache.Control) { c.Force, c.NoLookup = true, true })},
		{name: "RFC 9111 no-cache", h: header.List{{Name: standard, Value: "no-cache"}}, want: with(func(c *cache.Control) { c.NoLookup = true })},
		{name: "RFC 9111 no-store", h: header.List{{Name: standard, Value: "No-Store"}}, want: with(func(c *cache.Control) { c.NoStore = true })},
		{name: "RFC 9111 max-age", h: header.List{{Name: standard, Value: "max-age=60"}}, want: with(func(c *cache.Control) { c.MaxAge = time.Minute })},
		{name: "the smaller age counts", h: header.List{{Name: standard, Value: "max-age=60"}, {Name: own, Value: "max-age=5"}}, want: with(func(c *cache.Control) { c.MaxAge = 5 * time.Second })},
		{name: "RFC 5861 stale-if-error", h: header.List{{Name: standard, Value: `stale-if-error="0"`}}, want: with(func(c *cache.Control) { c.StaleFor = 0 })},
		{name: "others' directives are left alone", h: header.List{{Name: standard, Value: "no-transform, max-stale, max-age=x, force, off,"}}, want: free},
		{name: "an unknown word of our own", h: header.List{{Name: own, Value: "force, please"}}, bad: `"please"`},
		{name: "an empty one", h: header.List{{Name: own, Value: ""}}, bad: `""`},
		{name: "no number", h: header.List{{Name: own, Value: "max-age=soon"}}, bad: `"max-age=soon"`},
		{name: "a negative one", h: header.List{{Name: own, Value: "max-age=-1"}}, bad: `"max-age=-1"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := cache.ParseControl(tt.h)
			if tt.bad == "" {
				if err != nil || got != tt.want {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			f, ok := errors.AsType[*fault.Fault](err)
			if !ok || f.Kind != fault.InvalidRequest || !strings.Contains(f.Public, "X-Bardo-Cache: "+tt.bad) {
				t.Errorf("error is %v, want one about %s", err, tt.bad)
			}
		})
	}
}

// FuzzControl: no header breaks it, and Cache-Control is never refused.
func FuzzControl(f *testing.F) {
	f.Add("max-age=1,no-cache", "force")
	f.Fuzz(func(t *testing.T, standard, own string) {
		if _, err := cache.ParseControl(header.List{{Name: "cache-control", Value: standard}}); err != nil {
			t.Errorf("%q: %v", standard, err)
		}
		c, err := cache.ParseControl(header.List{{Name: "x-bardo-cache", Value: own}})
		if err == nil && (c.MaxAge < 0 || c.StaleFor < 0) {
			t.Errorf("%q: %+v", own, c)
		}
	})
}
