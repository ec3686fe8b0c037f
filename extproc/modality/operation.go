// Package modality serves the endpoints other than conversations and embeddings: moderation, ranking, images and audio. A request is sent unchanged,
// except for the model's name, to a provider that has the endpoint, and its answer is passed on unchanged. The cost is computed from the request and
// from the usage in the answer. The package knows nothing of an exchange: its caller finds the candidates, reserves the money and writes the record.
package modality

import (
	"slices"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Operation is one of the endpoints.
type Operation struct {
	Endpoint kind.Endpoint
	Feature  policy.Feature // feature of the models that serve it

	form     bool // its body is a multipart form
	formless bool // its body may also be JSON
	optional bool // the vendor has a default model
}

var operations = []Operation{
	{Endpoint: kind.Moderations, Feature: policy.Moderation, optional: true},
	{Endpoint: kind.Rerank, Feature: policy.Rerank},
	{Endpoint: kind.ImageGeneration, Feature: policy.ImageGeneration, optional: true},
	{Endpoint: kind.ImageEdit, Feature: policy.ImageGeneration, form: true, formless: true, optional: true},
	{Endpoint: kind.ImageVariation, Feature: policy.ImageGeneration, form: true, optional: true},
	{Endpoint: kind.Speech, Feature: policy.Speech},
	{Endpoint: kind.Transcription, Feature: policy.Transcription, form: true},
	{Endpoint: kind.Translation, Feature: policy.Transcription, form: true},
	{Endpoint: kind.Sealed, Feature: policy.EndToEndEncryption},
}

// version is the path prefix of the endpoints.
const version = "/v1"

// Path returns the endpoint's path, as requested by clients.
func (o *Operation) Path() string { return version + string(o.Endpoint) }

// Operations returns all operations.
func Operations() []Operation { return slices.Clone(operations) }

// Find returns the operation of a path; nil for any other path.
func Find(path string) *Operation {
	i := slices.IndexFunc(operations, func(o Operation) bool { return o.Path() == path })
	if i < 0 {
		return nil
	}
	return &operations[i]
}

// Makes returns a phrase for what a model of this operation does.
func (o *Operation) Makes() string {
	switch o.Feature { //nolint:exhaustive // the features of operations
	case policy.Moderation:
		return "classifies content"
	case policy.Rerank:
		return "ranks documents"
	case policy.ImageGeneration:
		return "makes images"
	case policy.Speech:
		return "speaks texts"
	case policy.Realtime:
		return "holds realtime sessions"
	case policy.EndToEndEncryption:
		return "runs in an enclave that opens requests"
	}
	return "writes down speech"
}

// Sealed reports whether its requests can only be read by an enclave.
func (o *Operation) Sealed() bool { return o.Feature == policy.EndToEndEncryption }

// images reports whether it generates images.
func (o *Operation) images() bool { return o.Feature == policy.ImageGeneration }

// audio reports whether its request or its answer is audio.
func (o *Operation) audio() bool {
	return o.Feature == policy.Speech || o.Feature == policy.Transcription
}
