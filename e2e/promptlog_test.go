package e2e

import (
	"net/http"
	"strings"
	"testing"

	"bardo.money/gateway/e2e/fake"
	"bardo.money/gateway/e2e/gateway"
)

// TestF05WhatSaysThatItIsKeptIsKept, and nothing else is: answers of models and of the cache have the header, errors and what is private have not.
func TestF05WhatSaysThatItIsKeptIsKept(t *testing.T) {
	t.Parallel()
	p := fake.Start(t, fake.Config{Dialect: fake.OpenAI, Name: "own"})
	p.BehaveFor("broken", fake.Behaviour{Status: http.StatusInternalServerError})
	o := gateway.Options{
		Config:    quick + "pipeline: {hash: all}\ntelemetry: {prompts: {file: prompts.db, encryption_key: \"a key of thirty-two bytes, or so it is\"}}\n",
		Providers: []gateway.Provider{{ID: "own", Fake: p, Models: append(models("m", ""), models("broken", "")...), More: "private: true"}},
	}
	g := gateway.Run(t, o)
	logPromptsOf(t, g, o)
	want := map[string]bool{}
	for _, row := range []struct {
		model, say string
		header     []string
		status     int
		kept       bool
	}{
		{"m", "said once", nil, http.StatusOK, true},
		{"m", "said once", nil, http.StatusOK, true}, // of the cache
		{"broken", "said to nobody", nil, http.StatusBadGateway, false},
		{"unheard-of", "said to no model", nil, http.StatusNotFound, false},
		{"m", "private key 0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318", nil, http.StatusBadRequest, false},
		{"m", "said in private", []string{"X-Bardo-Security-Class: private"}, http.StatusOK, false},
		{"m", "said in confidence", []string{"X-Bardo-Security-Class: confidential"}, http.StatusOK, false},
	} {
		for _, stream := range []bool{false, true} {
			got := g.Do(t, ask{dialect: fake.OpenAI, model: row.model, say: row.say, stream: stream}.call(row.header...))
			if on := got.Header.Get("X-Bardo-Prompt-Log"); got.Status != row.status || (on == "on") != row.kept || on != "" && on != "on" {
				t.Errorf("%.20s, stream %v: %d, the header is %q: %s", row.say, stream, got.Status, on, got.Body)
			}
			want[got.Header.Get("X-Request-Id")] = row.kept
		}
	}
	last := g.Do(t, ask{dialect: fake.OpenAI, model: "m", say: "said at the end"}.call()).Header.Get("X-Request-Id")
	var kept string
	eventually(t, "the prompt log", func() bool { kept = g.Bardo(t, "prompts"); return strings.Contains(kept, last) })
	for id, is := range want {
		if strings.Contains(kept, id) != is {
			t.Errorf("%s is kept: %v, want %v", id, !is, is)
		}
	}
}
