package extproc

import (
	"context"
	"encoding/json"
	"time"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/internal/fault"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/resolve"
)

// modelObject is one model of the merged catalog, in OpenAI's form with what the gateway knows besides.
type modelObject struct {
	ID           string              `json:"id"`
	Object       string              `json:"object"`
	Created      int64               `json:"created"`
	OwnedBy      string              `json:"owned_by"`
	Providers    []policy.ProviderID `json:"providers"`
	Health       map[string]string   `json:"health"`
	Context      int                 `json:"context,omitempty"`
	MaxOutput    int                 `json:"max_output,omitempty"`
	Price        modelPrice          `json:"price"`
	Capabilities []policy.Feature    `json:"capabilities"`
}

// modelPrice is in USD per million tokens.
type modelPrice struct {
	Input       policy.Micro `json:"input"`
	Output      policy.Micro `json:"output"`
	CachedInput policy.Micro `json:"cached_input"`
	CacheWrite  policy.Micro `json:"cache_write"`
	Known       bool         `json:"known"`
}

// claudeModel is the same in Anthropic's form.
type claudeModel struct {
	Type        string    `json:"type"`
	ID          string    `json:"id"`
	DisplayName string    `json:"display_name"`
	CreatedAt   time.Time `json:"created_at"`
}

func listModels(_ context.Context, x *exchange) (reply, error) {
	offers := x.rt.Resolver.Models()
	if x.head.dialect() == chat.Anthropic {
		return x.claudeModels(offers)
	}
	list := struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{Object: "list", Data: make([]modelObject, 0, len(offers))}
	for i := range offers {
		list.Data = append(list.Data, x.modelObject(&offers[i]))
	}
	body, err := json.Marshal(list)
	return x.jsonReply(body), err
}

func (x *exchange) claudeModels(offers []resolve.Offer) (reply, error) {
	list := struct {
		Data    []claudeModel `json:"data"`
		FirstID *string       `json:"first_id"`
		HasMore bool          `json:"has_more"`
		LastID  *string       `json:"last_id"`
	}{Data: make([]claudeModel, 0, len(offers))}
	for i := range offers {
		list.Data = append(list.Data, newClaudeModel(&offers[i]))
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
	}
	body, err := json.Marshal(list)
	return x.jsonReply(body), err
}

func showModel(_ context.Context, x *exchange) (reply, error) {
	id := x.arg("/v1/models/")
	o, ok := x.rt.Resolver.Model(id)
	if !ok {
		_, err := x.rt.Resolver.Resolve(id, "", nil)
		if err == nil {
			err = fault.Newf(fault.ModelNotFound, "no provider lists the model %q", clipped(id))
		}
		return reply{}, err
	}
	var body []byte
	var err error
	if x.head.dialect() == chat.Anthropic {
		body, err = json.Marshal(newClaudeModel(&o))
	} else {
		body, err = json.Marshal(x.modelObject(&o))
	}
	return x.jsonReply(body), err
}

func (x *exchange) modelObject(o *resolve.Offer) modelObject {
	m := modelObject{
		ID: string(o.ID), Object: "model", OwnedBy: ownedBy(o), Providers: o.Providers, Health: map[string]string{},
		Context: o.Context, MaxOutput: o.MaxOutput, Capabilities: o.Capabilities,
		Price: modelPrice{
			Input: policy.Micro(o.Prices.Input), Output: policy.Micro(o.Prices.Output),
			CachedInput: policy.Micro(o.Prices.CachedInput), CacheWrite: policy.Micro(o.Prices.CacheWrite), Known: o.Prices.Known,
		},
	}
	if m.Capabilities == nil {
		m.Capabilities = []policy.Feature{}
	}
	for _, p := range o.Providers {
		m.Health[string(p)] = x.gw.Health.State(p)
	}
	return m
}

func ownedBy(o *resolve.Offer) string {
	if o.Vendor != "" {
		return string(o.Vendor)
	}
	return string(o.Providers[0])
}

func newClaudeModel(o *resolve.Offer) claudeModel {
	return claudeModel{Type: "model", ID: string(o.ID), DisplayName: string(o.ID), CreatedAt: time.Unix(0, 0).UTC()}
}
