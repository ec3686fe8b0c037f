package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"bardo.money/gateway/internal/seal"
	"bardo.money/gateway/policy/session"
)

// words is a model whose vectors count some words.
type words struct {
	tag   string
	off   bool
	calls int
}

var errOff = errors.New("off")

func (w *words) Tag() string { return w.tag }

func (w *words) Embed(_ context.Context, text string) ([]float32, error) {
	if w.calls++; w.off {
		return nil, errOff
	}
	v, sum := make([]float32, 4), 0.0
	for i, word := range []string{"wallet", "weather", "dog", "moon"} {
		n := float64(strings.Count(strings.ToLower(text), word))
		v[i], sum = float32(n), sum+n*n
	}
	for i := range v {
		if sum > 0 {
			v[i] /= float32(math.Sqrt(sum))
		}
	}
	return v, nil
}

type lab struct {
	*Memory

	book  *session.Book
	model *words
	s     session.Session
}

func newLab(t *testing.T) *lab {
	t.Helper()
	store, err := session.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "s.db"), seal.Keys{Set: "k"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Shut() })
	l := &lab{book: session.New(store, nil), model: &words{tag: "m1"}, s: session.Session{Account: "ada", Expires: time.Now().Add(time.Hour)}}
	if _, err := l.book.Create(t.Context(), &l.s, nil); err != nil {
		t.Fatal(err)
	}
	l.Memory = &Memory{Store: l.book, Embedder: l.model}
	return l
}

func (l *lab) put(t *testing.T, key, title, text string) {
	t.Helper()
	d := l.book.NewDocument(&l.s, key, 0)
	d.Title, d.Text = title, text
	if err := l.Put(t.Context(), l.s.ID, &d); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) find(t *testing.T, question string, k int, least float64) (out []string) {
	t.Helper()
	found, err := l.Search(t.Context(), "ada", l.s.ID, question, k, least)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if f.Document.Text != "" || f.ID == "" {
			t.Errorf("%+v", f)
		}
		out = append(out, fmt.Sprintf("%s: %s %.2f", f.Key, f.Text, f.Score))
	}
	return out
}

func TestC17WhatResemblesAQuestionIsFound(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.put(t, "b", "", "The dog barks.")
	l.put(t, "a", "", "A dog and the moon.")
	l.put(t, "w", "Wallet", strings.Repeat("x ", 290)+"\n\nit is empty, said the dog")
	if got := l.find(t, "Which dog?", 5, 0.6); !slices.Equal(got, []string{"b: The dog barks. 1.00", "a: A dog and the moon. 0.71", "w: it is empty, said the dog 0.71"}) {
		t.Errorf("%q", got)
	}
	if got := l.find(t, "Which dog?", 1, 0.6); len(got) != 1 {
		t.Errorf("%q", got)
	}
	for _, question := range []string{"How is the weather?", "Nothing of it", ""} {
		if got := l.find(t, question, 5, 0.6); got != nil {
			t.Errorf("%q resembles %q", question, got)
		}
	}
	if found, err := l.Search(t.Context(), "eve", l.s.ID, "dog", 5, 0); err != nil || found != nil {
		t.Errorf("another account finds %v, %v", found, err)
	}
}

func TestC17VectorsOfAnotherModelAreMadeAnew(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.model.off = true
	for i := range maxRenewed + 2 {
		l.put(t, fmt.Sprintf("%02d", i), "", "A dog.")
	}
	if _, err := l.Search(t.Context(), "ada", l.s.ID, "dog", 99, 0.5); !errors.Is(err, errOff) {
		t.Errorf("without a model: %v", err)
	}
	l.model.off = false
	for _, tag := range []string{"m1", "m2"} {
		l.model.tag = tag
		if got := l.find(t, "dog", 99, 0.5); len(got) != maxRenewed {
			t.Errorf("%s: the first search finds %d", tag, len(got))
		}
		before := l.model.calls
		if got := l.find(t, "dog", 99, 0.5); len(got) != maxRenewed+2 || l.model.calls-before != 3 {
			t.Errorf("%s: the second search finds %d, after %d texts", tag, len(got), l.model.calls-before)
		}
		if before = l.model.calls; len(l.find(t, "dog", 99, 0.5)) != maxRenewed+2 || l.model.calls-before != 1 {
			t.Errorf("%s: the third search reads %d texts", tag, l.model.calls-before)
		}
	}
}

func TestC17ASessionWithoutDocumentsAsksNoModel(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	if got := l.find(t, "dog", 5, 0); got != nil || l.model.calls != 0 {
		t.Errorf("%q, after %d calls", got, l.model.calls)
	}
}

func TestTextsAreSplitWhereTheyEnd(t *testing.T) {
	t.Parallel()
	line := strings.Repeat("word ", 60)
	for text, want := range map[string][]int{
		"":                        nil,
		" \n ":                    nil,
		" a ":                     {1},
		line + "\n\n" + line:      {299, 299},
		line + "\n" + line + ".":  {299, 301},
		strings.Repeat("x", 1000): {600, 400},
		strings.Repeat("é", 301):  {600, 2},
	} {
		var got []int
		for _, s := range split(text) {
			got = append(got, s.stop-s.start)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.20q: %v, want %v", text, got, want)
		}
	}
}

// FuzzSplit: passages are in order, limited in length, and cover all of a text but white space.
func FuzzSplit(f *testing.F) {
	f.Add("a. b\n\nc " + strings.Repeat("é", 700))
	f.Fuzz(func(t *testing.T, text string) {
		var rest strings.Builder
		end := 0
		for _, s := range split(text) {
			if s.start < end || s.stop <= s.start || s.stop > len(text) || s.stop-s.start > maxPassageBytes {
				t.Fatalf("%+v after %d", s, end)
			}
			if utf8.ValidString(text) && !utf8.ValidString(text[s.start:s.stop]) {
				t.Errorf("%q is cut within a character", text[s.start:s.stop])
			}
			rest.WriteString(text[end:s.start])
			end = s.stop
		}
		rest.WriteString(text[end:])
		if left := strings.Trim(rest.String(), " \t\r\n"); left != "" {
			t.Errorf("%q is in no passage", left)
		}
	})
}
