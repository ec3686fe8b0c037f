package settings

import (
	"cmp"
	"time"

	"bardo.money/gateway/extproc/layers/retrieval"
	"bardo.money/gateway/extproc/memory"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/internal/config"
)

// Retrieval is the layer that adds search results, without its masking. m is nil if sessions are off.
func Retrieval(cfg *config.Retrieval, m *memory.Memory, c retrieval.Client) retrieval.Layer {
	l := retrieval.Layer{ProfileNames: cfg.Profiles, Subsystems: cfg.Subsystems, MaxResults: cfg.MaxResults, MaxTokens: cfg.MaxTokens}
	if len(l.ProfileNames) == 0 {
		l.ProfileNames = []string{pipeline.ProfileStandard}
	}
	if cfg.Memory != "off" && cfg.Memory != "" && m != nil {
		l.Sources = append(l.Sources, retrieval.Source{
			Finder: retrieval.Memory{Memory: m, MinScore: cfg.MinScore}, Name: "memory", Timeout: cmp.Or(cfg.MemoryTimeout, time.Second), Shadow: cfg.Memory == "shadow", Local: true, SessionsOnly: true,
		})
	}
	if c.HTTP == nil {
		return l
	}
	for i := range cfg.Hooks {
		h := &cfg.Hooks[i]
		l.Sources = append(l.Sources, retrieval.Source{
			Finder: &retrieval.Hook{
				Client: c, Name: h.Name, Cluster: string(hookCluster("retrieval", h.Name, &h.URL)), Host: h.URL.Host, Path: cmp.Or(h.URL.Path, "/"), Token: h.Token,
				MaxBytes: h.MaxBytes, Shadow: h.Shadow,
			},
			Name: h.Name, Timeout: h.Timeout, Shadow: h.Shadow, Refuse: h.OnError == "refuse", Private: h.Private, Subsystems: h.Subsystems, Keys: h.Keys,
		})
	}
	return l
}
