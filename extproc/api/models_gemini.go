package api

import (
	"context"
	"encoding/json"

	"bardo.money/gateway/extproc/stream"
	"bardo.money/gateway/policy/resolve"
)

// geminiModel is one model of the merged catalog in Google's form.
type geminiModel struct {
	Name        string   `json:"name"`
	BaseModelID string   `json:"baseModelId"`
	Version     string   `json:"version"`
	DisplayName string   `json:"displayName"`
	InputLimit  int      `json:"inputTokenLimit,omitempty"`
	OutputLimit int      `json:"outputTokenLimit,omitempty"`
	Methods     []string `json:"supportedGenerationMethods"`
}

func newGeminiModel(o *resolve.Offer) geminiModel {
	return geminiModel{
		Name: "models/" + string(o.ID), BaseModelID: string(o.ID), Version: "001", DisplayName: string(o.ID),
		InputLimit: o.Context, OutputLimit: o.MaxOutput, Methods: []string{"generateContent", "countTokens"},
	}
}

// GeminiModels is GET /v1beta/models, on one page.
func (s *Server) GeminiModels(_ context.Context, c *Caller) (stream.Reply, error) {
	offers := c.offers()
	list := struct {
		Models []geminiModel `json:"models"`
	}{Models: make([]geminiModel, 0, len(offers))}
	for i := range offers {
		list.Models = append(list.Models, newGeminiModel(&offers[i]))
	}
	body, err := json.Marshal(list)
	return c.Head.JSON(body), err
}

// GeminiModel is GET /v1beta/models/{id}.
func (s *Server) GeminiModel(_ context.Context, c *Caller) (stream.Reply, error) {
	o, err := c.model("/v1beta/models/")
	if err != nil {
		return stream.Reply{}, err
	}
	body, err := json.Marshal(newGeminiModel(&o))
	return c.Head.JSON(body), err
}
