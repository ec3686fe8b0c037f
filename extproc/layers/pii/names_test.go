package pii_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/fault"
)

// namer finds "Ada Lovelace", blocks, or fails.
type namer struct {
	takes time.Duration
	err   error
	asked atomic.Int64
}

func (n *namer) Find(ctx context.Context, text string, out []pii.Span) ([]pii.Span, error) {
	n.asked.Add(1)
	select {
	case <-time.After(n.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	const name = "Ada Lovelace"
	if i := strings.Index(text, name); i >= 0 {
		out = append(out, pii.Span{Start: i, End: i + len(name), Type: pii.Person})
	}
	return out, n.err
}

func naming(m layer.Mode, n *namer) layer.Layer {
	l := newLayer(m)
	l.Names.Finder = pii.NewMemo(pii.NewScanner(n))
	return l
}

const (
	ada  = `{"role":"user","content":"I am Ada Lovelace"}`
	said = `{"role":"system","content":"Ada Lovelace asks"},{"role":"assistant","content":"Hello Ada Lovelace."},` + ada
)

func TestF01NamesAreMaskedWhereverTheyStand(t *testing.T) {
	n := &namer{}
	l := naming(layer.Mask, n)
	x := exchange(t, said)
	if !l.Waits(x) {
		t.Error("the layer does not say that it waits for a model")
	}
	if err := run(t, l, x); err != nil {
		t.Fatal(err)
	}
	doc := string(x.Request.Doc.Bytes)
	if strings.Contains(doc, "Ada") || strings.Count(doc, "PERSON_") != 3 || !x.Watched() || x.Log[0].Note != "masked;person=1" {
		t.Errorf("%s; %+v", doc, x.Log)
	}
	if n.asked.Load() != 1 {
		t.Errorf("the model read %d texts: only what people and tools wrote is read", n.asked.Load())
	}
	if err := run(t, l, exchange(t, said+`,{"role":"assistant","content":"Yes?"},{"role":"user","content":"Who am I?"}`)); err != nil || n.asked.Load() != 2 {
		t.Errorf("the model read %d texts: what it knows is not read again; %v", n.asked.Load(), err)
	}
}

func TestF01NamesAreCountedOrRefused(t *testing.T) {
	x := exchange(t, ada)
	if err := run(t, naming(layer.Detect, &namer{}), x); err != nil || x.Log[0].Note != "found;person=1" || !strings.Contains(string(x.Request.Doc.Bytes), "Ada Lovelace") {
		t.Errorf("%v, %+v", err, x.Log)
	}
	if f := fault.From(run(t, naming(layer.Block, &namer{}), exchange(t, ada))); f.Kind != fault.SecretInPrompt || strings.Contains(f.Error(), "Ada") {
		t.Error(f)
	}
	n := &namer{}
	x = exchange(t, ada)
	if l := naming(layer.Off, n); l.Waits(x) || run(t, l, x) != nil || n.asked.Load() != 0 {
		t.Error("names are looked for although the policy is off")
	}
}

func TestF01WithoutAnAnswerNamesAreNotSent(t *testing.T) {
	for _, row := range []struct {
		about string
		mode  layer.Mode
		allow bool
		n     *namer
		sent  bool
	}{
		{"late, masked", layer.Mask, false, &namer{takes: time.Minute}, false},
		{"late, refused", layer.Block, false, &namer{takes: time.Minute}, false},
		{"failed", layer.Mask, false, &namer{err: errors.New("the model is off")}, false},
		{"late, allowed", layer.Mask, true, &namer{takes: time.Minute}, true},
		{"late, counted", layer.Detect, false, &namer{takes: time.Minute}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := naming(row.mode, row.n)
			l.Names.Allow, l.Names.Timeout = row.allow, 3*time.Second
			x, begin := exchange(t, ada), time.Now()
			err := run(t, l, x)
			if (err == nil) != row.sent || err != nil && fault.From(err).Kind != fault.Overloaded {
				t.Errorf("%s: %v", row.about, err)
			}
			if row.sent && x.Log[0].Note != "unnamed" {
				t.Errorf("%s: %+v", row.about, x.Log)
			}
			if took := time.Since(begin); row.n.takes > 0 && took != 3*time.Second {
				t.Errorf("%s: it took %v", row.about, took)
			}
		})
	}
}

// TestF01AClientThatLeavesIsNotWaitedFor: a disconnect ends the wait, and is no overload.
func TestF01AClientThatLeavesIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := pipeline.New(naming(layer.Mask, &namer{takes: time.Minute})).Request(ctx, exchange(t, ada))
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
