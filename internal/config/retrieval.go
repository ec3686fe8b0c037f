package config

import (
	"fmt"
	"time"
)

// Retrieval configures what is added to similar requests.
type Retrieval struct {
	Memory        string        `key:"memory" default:"off" oneof:"off shadow on" doc:"Documents that agents have stored in their sessions, in requests of these: not used; looked for and counted, but not added; or added. It needs the embedding model."`
	MemoryTimeout time.Duration `key:"memory_timeout" default:"150ms" doc:"How long documents may be looked for; then a request goes on without them."`
	MinScore      float64       `key:"min_score" default:"0.35" min:"0" max:"1" doc:"Least cosine of a passage of a document and the request."`
	MaxResults    int           `key:"max_results" default:"5" min:"1" max:"20" doc:"Most results that are added to a request."`
	MaxTokens     int           `key:"max_tokens" default:"1000" min:"50" max:"16000" doc:"Most tokens of all results together, estimated."`

	Profiles   []string `key:"profiles" oneof:"minimal fast standard full" doc:"Pipeline profiles whose requests get results. Without it, standard and full; full always does."`
	Subsystems []string `key:"subsystems" doc:"Subsystems whose requests get results; * stands for any text. Without it, all requests."`

	Hooks []RetrievalHook `key:"hooks" doc:"Services of the operator's that find something for requests."`
}

// RetrievalHook is a service that returns results for a request.
type RetrievalHook struct {
	Name     string        `key:"name" doc:"The hook's name in records and metrics: letters, digits, dashes and underscores."`
	URL      URL           `key:"url" doc:"Where questions are sent, by POST, through Envoy."`
	Token    Secret        `key:"token" doc:"Sent to the hook as Authorization: Bearer."`
	Timeout  time.Duration `key:"timeout" default:"500ms" doc:"How long an answer of the hook is waited for, at most 10s."`
	OnError  string        `key:"on_error" default:"allow" oneof:"allow refuse" doc:"What happens to a request if the hook gives no answer: it goes on without results of the hook, or it ends with an error."`
	Shadow   bool          `key:"shadow" default:"false" doc:"The hook is asked, and its results are counted, but not added."`
	Private  bool          `key:"private" default:"false" doc:"The hook may see private requests (security_class: private). Others are left out of its sight."`
	MaxBytes int           `key:"max_bytes" default:"262144" min:"1024" max:"4194304" doc:"Most bytes of an answer of the hook. A longer one counts as none."`

	Subsystems []string `key:"subsystems" doc:"Subsystems whose requests the hook is asked about; * stands for any text. Without it, all that get results."`
	Keys       []string `key:"keys" doc:"API keys whose requests the hook is asked about, by id or name; * stands for any text. Without it, all."`
}

func (d *decoder) checkRetrieval(r *Retrieval) {
	if r.MemoryTimeout <= 0 || r.MemoryTimeout > maxHookTimeout {
		d.problem("pipeline.retrieval.memory_timeout", "more than 0 and at most 10s", "%s", r.MemoryTimeout)
	}
	if len(r.Hooks) > maxGuardrails {
		d.problem("pipeline.retrieval.hooks", fmt.Sprintf("at most %d", maxGuardrails), "%d hooks", len(r.Hooks))
	}
	seen := map[string]bool{}
	for i := range r.Hooks {
		h, key := &r.Hooks[i], fmt.Sprintf("pipeline.retrieval.hooks[%d]", i)
		d.checkRuleName(key+".name", h.Name, seen)
		if h.Name == "memory" || h.Name == "results" || h.Name == "added" || h.Name == "ids" {
			d.problem(key+".name", "another name", "%q has a meaning of its own in records", h.Name)
		}
		d.checkHook(key, h.URL, h.Timeout, h.Token, "http://127.0.0.1:9500/search")
	}
}

// checkHook checks the address and authentication of a hook.
func (d *decoder) checkHook(key string, url URL, timeout time.Duration, token Secret, example string) {
	if url == (URL{}) {
		d.problem(key+".url", "where the hook is, such as "+example, missing)
	}
	if timeout <= 0 || timeout > maxHookTimeout {
		d.problem(key+".timeout", "more than 0 and at most 10s", "%s", timeout)
	}
	if token.IsSet() && !url.TLS() && url.Public() {
		d.warn(d.place(key+".url"), key+".url", "the token goes to %s without encryption", url.Host)
	}
}
