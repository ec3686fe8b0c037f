package models_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"bardo.money/gateway/internal/modeltest"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/manifest"
)

// namer is a host with a model for names.
func namer(t *testing.T) *models.Host {
	t.Helper()
	o := options(t)
	o.Dirs = manifest.Dirs{modeltest.Namer(t), modeltest.Dir(t)}
	o.Choice = map[manifest.Kind]string{manifest.Embedding: models.Auto, manifest.Injection: models.Auto, manifest.Entities: models.Auto}
	return start(t, o)
}

func TestF01NamesAreFoundWhereTheyStand(t *testing.T) {
	r := namer(t).Recognizer()
	for text, want := range map[string][]string{
		"":                                   nil,
		"nothing here":                       nil,
		"Ada Lovelace lives in Paris.":       {"PER:Ada Lovelace", "LOC:Paris"},
		"ÀDA\u00a0lovelace, née Byron":       {"PER:ÀDA\u00a0lovelace"},
		"ada grace":                          {"PER:ada", "PER:grace"},    // two beginnings
		"Lovelace":                           {"PER:Lovelace"},            // no beginning
		"Graceful":                           {"PER:Graceful"},            // a word has the label of its first token
		"ada, lovelace":                      {"PER:ada", "PER:lovelace"}, // a sign ends a name
		"(New York)(Acme)":                   {"LOC:New York", "ORG:Acme"},
		"日本 Paris\xff\xfe Ada":               {"LOC:Paris", "PER:Ada"},
		"[CLS] Ada [SEP]":                    {"PER:Ada"},
		strings.Repeat("a ", 999) + "Ada":    {"PER:Ada"}, // after the first window
		"Ada" + strings.Repeat(" x", 20_000): {"PER:Ada"},
	} {
		all, err := r.Entities(t.Context(), text)
		var got []string
		for _, e := range all {
			got = append(got, e.Label+":"+text[e.Start:e.End])
			if e.Score < 0.9 || e.Score > 1 {
				t.Errorf("%.40q: the score of %q is %f", text, text[e.Start:e.End], e.Score)
			}
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%.40q: %q, want %q; %v", text, got, want, err)
		}
	}
}

// TestF01ANameAtTheEndOfAWindowIsWhole: windows overlap.
func TestF01ANameAtTheEndOfAWindowIsWhole(t *testing.T) {
	r := namer(t).Recognizer()
	for n := 245; n < 260; n++ { // a window has 254 words
		text := strings.Repeat("a ", n) + "Ada Lovelace" + strings.Repeat(" b", 300)
		all, err := r.Entities(t.Context(), text)
		if err != nil || len(all) != 1 || text[all[0].Start:all[0].End] != "Ada Lovelace" {
			t.Errorf("behind %d words: %+v, %v", n, all, err)
		}
	}
}

func TestNamesAreLookedForOnlyIfAModelIsChosen(t *testing.T) {
	h := start(t, options(t))
	if _, err := h.Recognizer().Entities(t.Context(), "Ada"); !errors.Is(err, models.ErrOff) || len(h.Status()) != 2 {
		t.Errorf("%v, %+v", err, h.Status())
	}
	h = namer(t)
	if st := h.Status(); len(st) != 3 || st[2].State != models.StateInstalled || st[2].Kind != manifest.Entities {
		t.Errorf("%+v", st)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := h.Recognizer().Entities(ended, strings.Repeat("Ada ", 4)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzNamesAreInTheirText(f *testing.F) {
	o := options(f)
	o.Dirs = manifest.Dirs{modeltest.Namer(f), modeltest.Dir(f)}
	o.Choice = map[manifest.Kind]string{manifest.Embedding: models.Auto, manifest.Injection: models.Auto, manifest.Entities: models.Auto}
	r := start(f, o).Recognizer()
	for _, s := range []string{"Ada Lovelace", "\xff Paris", "é́é ada", strings.Repeat("new york ", 200)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := r.Entities(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		end := 0
		for _, e := range all {
			if e.Start < end || e.End <= e.Start || e.End > len(text) {
				t.Fatalf("%q: %+v", text, all)
			}
			end = e.End
		}
	})
}
