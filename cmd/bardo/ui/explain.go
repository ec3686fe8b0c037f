package ui

import (
	"net/http"
	"strings"

	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/policy"
)

// explainData is one request: its decisions, attempts and cost.
type explainData struct {
	record.Request
	Account   string
	KeyName   string
	Mood      string
	Layers    []layer
	Spread    policy.Micro // the gateway's margin
	Removable bool         // a cache entry belongs to it
	Done      string
}

// layer is a layer that ran.
type layer struct {
	Name  string
	About string
	Took  string // milliseconds
	Saved string // tokens
	Notes []string
}

// layerNames describe the layers.
var layerNames = map[string]string{
	"l1": "alignment for prompt caches", "l2": "semantic cache", "l3": "exact cache", "l4": "tool pruning", "l5": "compression", "l6": "affinity",
	"l7": "personal data and secrets", "l8": "injected instructions",
}

// layersOf parses the pipeline of a record, such as "l3;dur=0.04, l4;saved=11800".
func layersOf(pipeline string) (all []layer) {
	for entry := range strings.SplitSeq(pipeline, ",") {
		fields := strings.Split(strings.TrimSpace(entry), ";")
		if fields[0] == "" {
			continue
		}
		l := layer{Name: fields[0], About: layerNames[fields[0]]}
		for _, f := range fields[1:] {
			switch name, value, _ := strings.Cut(f, "="); name {
			case "dur":
				l.Took = value
			case "saved":
				l.Saved = value
			default:
				l.Notes = append(l.Notes, f)
			}
		}
		all = append(all, l)
	}
	return all
}

func (s *Server) explain(w http.ResponseWriter, r *http.Request, v *viewer) error {
	found, err := s.requestOf(r.Context(), v, r.PathValue("id"))
	if err != nil {
		return err
	}
	names, err := s.keyNames(r.Context(), v)
	if err != nil {
		return err
	}
	rec := recordOf(&found)
	d := explainData{
		Request: rec, Account: string(found.Account), KeyName: names[found.Account], Mood: moodOf(rec.HTTPStatus, rec.Status, len(rec.AttemptLog)),
		Layers: layersOf(rec.Pipeline), Removable: rec.CacheEntry != "" && found.Account != "", Done: doneText(r.URL.Query().Get("done")),
	}
	if provider := rec.ProviderCostUSD.Charge(0); rec.CostUSD > provider {
		d.Spread = rec.CostUSD - provider
	}
	s.render(w, http.StatusOK, v, "request", view{Title: "Request " + found.RequestID, Data: d})
	return nil
}

// doneText is the message after a change, by its outcome in the query parameter done.
func doneText(outcome string) string {
	return map[string]string{
		"removed":  "The cached answer was removed: the next such request is answered by a provider.",
		"cleared":  "The cache is empty.",
		"gone":     "The entry was not in the cache any more.",
		"revoked":  "The key was revoked.",
		"limited":  "The limits were changed.",
		"switched": "The order of providers was changed.",
	}[outcome]
}
