package modality

import (
	"context"
	"slices"

	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/request"
	"bardo.money/gateway/internal/jsonx"
	"bardo.money/gateway/policy/intent"
)

// Inspection searches the texts of a realtime session's events with the protecting layers. It does not change them: MayRelay refuses sessions in which
// layers would have to. Not safe for concurrent use.
type Inspection struct {
	at      pipeline.Exchange // of one event, without its request
	layers  *pipeline.Pipeline
	dialect chat.Dialect
	model   string
}

// NewInspection returns the inspection of a session.
func NewInspection(v *request.View) *Inspection {
	return &Inspection{
		at: pipeline.Exchange{
			ID: v.ID, Principal: v.Principal, Hints: v.Hints, Header: v.Header, Intent: v.Intent, Found: slices.Clone(v.Found), Order: slices.Clone(v.Order),
			Profile: intent.Pipeline(&v.Intent, v.Hints.Pipeline, v.Config.Intents.Pipeline), DirectKey: v.SkipsMasking(), CallersKey: v.CallersKey, ProtectOnly: true,
		},
		layers: v.Config.Pipeline, dialect: v.Request.Dialect, model: v.Request.Model,
	}
}

// Search runs the layers on the texts of one event, a JSON object in the form of a request for embeddings. The error is a fault of a layer that refuses the event.
func (s *Inspection) Search(ctx context.Context, texts []byte) ([]pipeline.Entry, error) {
	doc, err := jsonx.Scan(texts)
	if err != nil {
		return nil, err
	}
	x := s.at
	x.Request = &chat.Request{Dialect: s.dialect, Op: chat.Modality, Model: s.model, Choices: 1, Doc: doc}
	err = s.layers.Request(ctx, &x)
	return x.Log, err
}
