package api

import (
	"encoding/json"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/policy"
	"bardo.money/gateway/policy/catalog"
)

// The local model is listed with those of providers, at price zero.

// localFacts returns the facts of the local model.
func localFacts(m *localembed.Model) modelFacts {
	free := policy.Prices{Known: true}
	price := modelPrice{PriceList: free.List(), Known: true, Source: catalog.SourceLocal}
	return modelFacts{
		Providers: []policy.ProviderID{localembed.Provider}, Health: map[string]string{string(localembed.Provider): "healthy"}, Context: m.About.Window,
		Dimensions: m.About.Dimensions, Price: price, Capabilities: []policy.Feature{policy.Embeddings, policy.Privacy}, Quality: policy.QualityUnset.String(),
		Offers: []modelOffer{{Provider: localembed.Provider, Upstream: m.About.Name, Health: "healthy", Context: m.About.Window, Price: price}},
	}
}

// localModel is GET /v1/models/{id} of the local model.
func (*Server) localModel(c *Caller) (stream.Reply, error) {
	var object any = localObject(c.Local)
	if c.Head.Dialect() == chat.Anthropic {
		object = localClaudeModel(c.Local)
	}
	body, err := json.Marshal(object)
	return c.Head.JSON(body), err
}

func localObject(m *localembed.Model) modelObject {
	return modelObject{ID: string(m.ID), Object: "model", OwnedBy: string(localembed.Provider), modelFacts: localFacts(m)}
}
