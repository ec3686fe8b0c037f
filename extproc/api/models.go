package api

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/resolve"
)

// modelObject is one model of the merged catalog, in OpenAI's form with the gateway's own facts.
type modelObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	Spread  int    `json:"spread_pct,omitempty"` // what the caller pays beyond the price, in percent
	modelFacts
}

// modelFacts is what the gateway knows about a model: as its first provider offers it, and the differences at each.
type modelFacts struct {
	Providers    []policy.ProviderID `json:"providers"`
	Health       map[string]string   `json:"health"`
	Context      int                 `json:"context,omitempty"`
	MaxOutput    int                 `json:"max_output,omitempty"`
	Dimensions   int                 `json:"dimensions,omitempty"` // of the vectors of a local model
	Price        modelPrice          `json:"price"`
	Capabilities []policy.Feature    `json:"capabilities"`
	Family       string              `json:"family,omitempty"`
	Quality      string              `json:"quality,omitempty"`
	Strengths    map[string]float64  `json:"strengths,omitempty"`
	Reasoning    modelReasoning      `json:"reasoning"`
	ToolFormat   string              `json:"tool_format,omitempty"`
	MinCache     int                 `json:"min_cache,omitempty"`
	LatencyP50   int64               `json:"latency_p50_ms,omitempty"`
	Offers       []modelOffer        `json:"offers"`
}

// modelReasoning is how a model's reasoning is controlled, and where it is returned.
type modelReasoning struct {
	Dialect string                  `json:"dialect"`
	Control policy.ReasoningControl `json:"control,omitempty"`
	Efforts []string                `json:"efforts,omitempty"`
	Display bool                    `json:"display"`
}

// modelOffer is the model at one provider.
type modelOffer struct {
	Provider    policy.ProviderID `json:"provider"`
	Upstream    string            `json:"upstream"`
	Health      string            `json:"health"`
	Context     int               `json:"context,omitempty"`
	MaxOutput   int               `json:"max_output,omitempty"`
	Price       modelPrice        `json:"price"`
	Quarantined *time.Time        `json:"quarantined_until,omitempty"` // the provider reported that it does not have the model
}

// modelPrice is the price of a model, and its origin.
type modelPrice struct {
	policy.PriceList

	Known   bool           `json:"known"`
	Source  catalog.Source `json:"source"`
	Updated *time.Time     `json:"updated,omitempty"` // when it was valid
}

// Models is GET /v1/models, in the form of the client's dialect: the models that its key may use.
func (s *Server) Models(_ context.Context, c *Caller) (stream.Reply, error) {
	offers := c.offers()
	if c.Head.Dialect() == chat.Anthropic {
		return s.claudeModels(c, offers)
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{Object: "list", Data: make([]modelObject, 0, len(offers))}
	for i := range offers {
		list.Data = append(list.Data, s.modelObject(c, &offers[i]))
	}
	if m := c.local(); m != nil {
		list.Data = append(list.Data, localObject(m))
	}
	body, err := json.Marshal(list)
	return c.Head.JSON(body), err
}

// Model is GET /v1/models/{id}.
func (s *Server) Model(_ context.Context, c *Caller) (stream.Reply, error) {
	if m := c.local(); m != nil && strings.EqualFold(c.Head.Arg("/v1/models/"), string(m.ID)) {
		return s.localModel(c)
	}
	o, err := c.model("/v1/models/")
	if err != nil {
		return stream.Reply{}, err
	}
	var body []byte
	if c.Head.Dialect() == chat.Anthropic {
		body, err = json.Marshal(s.claudeModel(&o))
	} else {
		body, err = json.Marshal(s.modelObject(c, &o))
	}
	return c.Head.JSON(body), err
}

func (s *Server) modelObject(c *Caller, o *resolve.Offer) modelObject {
	return modelObject{ID: string(o.ID), Object: "model", OwnedBy: ownedBy(o), Spread: c.Spread, modelFacts: s.facts(o)}
}

func (s *Server) facts(o *resolve.Offer) modelFacts {
	m := modelFacts{
		Providers: o.Providers, Health: map[string]string{}, Context: o.Context, MaxOutput: o.MaxOutput, Price: newModelPrice(&o.Model),
		Capabilities: o.Capabilities, Family: o.Family, Quality: o.Quality.String(), Strengths: o.Strengths.Known(),
		Reasoning:  modelReasoning{Dialect: o.Reasoning, Control: o.Thinking.Control, Efforts: o.Thinking.Efforts, Display: o.Thinking.Display},
		ToolFormat: o.ToolFormat, MinCache: o.MinCache, LatencyP50: o.LatencyP50.Milliseconds(),
	}
	if m.Capabilities == nil {
		m.Capabilities = []policy.Feature{}
	}
	for i, p := range o.Providers {
		m.Offers = append(m.Offers, s.offer(p, &o.Offers[i]))
		m.Health[string(p)] = m.Offers[i].Health
	}
	return m
}

func (s *Server) offer(p policy.ProviderID, m *catalog.Model) modelOffer {
	return modelOffer{
		Provider: p, Upstream: m.Upstream, Health: s.State(p), Context: m.Context, MaxOutput: m.MaxOutput, Price: newModelPrice(m),
		Quarantined: orNone(s.Quarantine.Until(time.Now(), p, m.Upstream)),
	}
}

func newModelPrice(m *catalog.Model) modelPrice {
	return modelPrice{PriceList: m.Prices.List(), Known: m.Prices.Known, Source: m.PriceSource, Updated: orNone(m.PriceUpdated)}
}

// orNone returns a pointer to a time; nil for the zero time.
func orNone(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func ownedBy(o *resolve.Offer) string {
	if o.Vendor != "" {
		return string(o.Vendor)
	}
	return string(o.Providers[0])
}
