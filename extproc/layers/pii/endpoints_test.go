package pii_test

import (
	"fmt"
	"strings"
	"testing"

	"bardo.money/gateway/extproc/chat"
	layer "bardo.money/gateway/extproc/layers/pii"
	"bardo.money/gateway/extproc/pii"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/extproc/wire/completions"
	"bardo.money/gateway/extproc/wire/embeddings"
	"bardo.money/gateway/extproc/wire/openai"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy"
)

// verbatim is a request whose body is sent without parsing a conversation.
func verbatim(t testing.TB, d wire.Dialect, op chat.Op, body string) *pipeline.Exchange {
	t.Helper()
	r, err := d.Decode(op, nil, "", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return &pipeline.Exchange{Request: r, Principal: policy.Principal{Account: "a"}, ProtectOnly: true}
}

// endpoint is a request to an endpoint of package modality.
func endpoint(t testing.TB, texts string) *pipeline.Exchange {
	t.Helper()
	doc, err := jsonx.Scan([]byte(texts))
	if err != nil {
		t.Fatal(err)
	}
	r := &chat.Request{Dialect: chat.OpenAI, Op: chat.Modality, Doc: doc}
	return &pipeline.Exchange{Request: r, Principal: policy.Principal{Account: "a"}, ProtectOnly: true}
}

// TestF01WhateverCarriesTextIsMasked: embeddings, completions, and the endpoints for moderation, ranking, images and audio.
func TestF01WhateverCarriesTextIsMasked(t *testing.T) {
	for _, row := range []struct {
		name     string
		of       func() *pipeline.Exchange
		n        int
		restores string // "events", "bytes" or ""
	}{
		{"a text", func() *pipeline.Exchange {
			return verbatim(t, embeddings.Dialect{}, chat.Embed, `{"model":"m","input":"write to a@b.com"}`)
		}, 1, ""},
		{"texts", func() *pipeline.Exchange {
			return verbatim(t, embeddings.Dialect{}, chat.Embed, `{"model":"m","user":"c@d.com","input":["a@b.com","x",{"content":[{"type":"text","text":"e@f.com"}]}]}`)
		}, 3, ""},
		{"a prompt", func() *pipeline.Exchange {
			return verbatim(t, completions.Dialect{}, chat.Generate, `{"model":"m","prompt":"a@b.com","suffix":"c@d.com","stop":["e@f.com"]}`)
		}, 3, "events"},
		{"prompts", func() *pipeline.Exchange {
			return verbatim(t, completions.Dialect{}, chat.Generate, `{"model":"m","prompt":["a@b.com","c@d.com"]}`)
		}, 2, "events"},
		{"a count", func() *pipeline.Exchange {
			return verbatim(t, openai.Dialect{}, chat.CountTokens, `{"model":"m","messages":[{"role":"user","content":"a@b.com"}]}`)
		}, 1, "events"},
		{"a ranking", func() *pipeline.Exchange {
			return endpoint(t, `{"query":"a@b.com","documents":["c@d.com",{"text":"e@f.com"}]}`)
		}, 3, "bytes"},
		{"a moderation", func() *pipeline.Exchange {
			return endpoint(t, `{"input":[{"type":"text","text":"a@b.com"},{"type":"image_url","image_url":{"url":"https://x.example"}}]}`)
		}, 1, "bytes"},
	} {
		x := row.of()
		if err := run(t, newLayer(layer.Mask), x); err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		body := string(x.Request.Edit.AppendTo(nil, &x.Request.Doc))
		if strings.Contains(body, "@") || strings.Count(body, "<EMAIL_") != row.n || len(x.Log) != 1 || !strings.HasPrefix(x.Log[0].Note, fmt.Sprintf("masked;email=%d", row.n)) {
			t.Errorf("%s: %s, %+v", row.name, body, x.Log)
		}
		restores := ""
		switch {
		case x.Watched():
			restores = "events"
		case x.NewRestorer != nil:
			restores = "bytes"
		}
		if restores != row.restores {
			t.Errorf("%s restores %q", row.name, restores)
		}
		if x = row.of(); fault.From(run(t, newLayer(layer.Block), x)).Kind != fault.SecretInPrompt {
			t.Errorf("%s is not blocked", row.name)
		}
		if x = row.of(); run(t, newLayer(""), x) != nil || x.Watched() || x.NewRestorer != nil || len(x.Log) != 1 || x.Log[0].Note != fmt.Sprintf("found;email=%d", row.n) {
			t.Errorf("%s is not counted: %+v", row.name, x.Log)
		}
		x = row.of()
		if x.DirectKey = true; run(t, newLayer(layer.Mask), x) != nil || len(x.Log) != 0 {
			t.Errorf("%s is masked for the user's own key", row.name)
		}
	}
}

// TestF01WhatCannotBeLookedInto is refused or sent, as configured; if it is sent, it is in the log.
func TestF01WhatCannotBeLookedInto(t *testing.T) {
	tokens := []func() *pipeline.Exchange{
		func() *pipeline.Exchange {
			return verbatim(t, embeddings.Dialect{}, chat.Embed, `{"model":"m","input":[1212,318]}`)
		},
		func() *pipeline.Exchange {
			return verbatim(t, embeddings.Dialect{}, chat.Embed, `{"model":"m","input":["a",[1212,318]]}`)
		},
		func() *pipeline.Exchange {
			return verbatim(t, completions.Dialect{}, chat.Generate, `{"model":"m","prompt":[[1212],[318]]}`)
		},
		func() *pipeline.Exchange {
			return verbatim(t, completions.Dialect{}, chat.Generate, `{"model":"m","prompt":"a","prompt_embeds":"AAAA"}`)
		},
	}
	media := []func() *pipeline.Exchange{
		func() *pipeline.Exchange {
			return exchange(t, `{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example"}}]}`)
		},
		func() *pipeline.Exchange {
			x := endpoint(t, `{"field 1":"words"}`)
			x.Files = 1
			return x
		},
	}
	for _, row := range []struct {
		mode          layer.Mode
		refuse        layer.Refuse
		tokens, media string // "refused", "noted" or ""
	}{
		{layer.Mask, "", "refused", "noted"},
		{layer.Mask, layer.Tokens, "refused", "noted"},
		{layer.Mask, layer.All, "refused", "refused"},
		{layer.Mask, layer.None, "noted", "noted"},
		{layer.Block, "", "refused", "noted"},
		{layer.Block, layer.All, "refused", "refused"},
		{layer.Detect, layer.All, "", ""},
		{layer.Off, layer.All, "", ""},
	} {
		l := newLayer(row.mode)
		l.RefuseParts = row.refuse
		for want, list := range map[*string][]func() *pipeline.Exchange{&row.tokens: tokens, &row.media: media} {
			for i, of := range list {
				x, got := of(), ""
				err := run(t, l, x)
				switch {
				case err != nil && fault.From(err).Kind == fault.InvalidRequest:
					got = "refused"
				case len(x.Log) == 1 && x.Log[0].Note == "unread=1":
					got = "noted"
				}
				if got != *want || got != "refused" && err != nil || x.Watched() {
					t.Errorf("%+v, %d: %q, %v, %+v", row, i, got, err, x.Log)
				}
			}
		}
	}
}

// TestF01SoundCannotBeUnmasked: values cannot be restored in sound and pictures, so that requests for them are refused.
func TestF01SoundCannotBeUnmasked(t *testing.T) {
	x := endpoint(t, `{"input":"write to a@b.com"}`)
	x.NoText = true
	if f := fault.From(run(t, newLayer(layer.Mask), x)); f.Kind != fault.SecretInPrompt || !strings.Contains(f.Public, "email") || strings.Contains(f.Public, "a@b") {
		t.Error(f)
	}
	x = endpoint(t, `{"input":"write"}`)
	x.NoText = true
	if err := run(t, newLayer(layer.Mask), x); err != nil || len(x.Log) > 0 {
		t.Error(err, x.Log)
	}
}

// TestABatchDoesNotDisplaceConversations: the texts of a batch of embeddings are not remembered.
func TestABatchDoesNotDisplaceConversations(t *testing.T) {
	c := &counting{}
	l := layer.Layer{Mode: layer.Mask, Finder: pii.NewMemo(pii.NewScanner(c)), Secret: func() []byte { return []byte("s") }}
	say := func() *pipeline.Exchange { return exchange(t, `{"role":"user","content":"the same words"}`) }
	var batch strings.Builder
	for i := range 20_000 { // more than the memory holds
		fmt.Fprintf(&batch, `,"text number %d"`, i)
	}
	for _, x := range []*pipeline.Exchange{say(), verbatim(t, embeddings.Dialect{}, chat.Embed, `{"model":"m","input":[`+batch.String()[1:]+`]}`), say()} {
		if err := run(t, l, x); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, s := range c.texts {
		if s == "the same words" {
			n++
		}
	}
	if n != 1 || len(c.texts) < 20_000 {
		t.Errorf("%d texts were searched, the conversation's %d times", len(c.texts), n)
	}
}
