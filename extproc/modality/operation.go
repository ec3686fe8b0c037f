// Package modality serves the endpoints that are neither for conversations nor for embeddings: moderation, ranking, images and audio. A
// request goes unchanged to a provider that has the endpoint, but for the model's name, and its answer unchanged to the client. What it
// costs is worked out from the request and from what the answer says was used. It knows nothing of an exchange: who calls it finds the
// candidates, holds the money and writes the record.
package modality

import (
	"slices"

	"bardo.money/gateway/internal/kind"
	"bardo.money/gateway/policy"
)

// Operation is one of the endpoints.
type Operation struct {
	Endpoint kind.Endpoint
	Feature  policy.Feature // of the models that answer here

	form     bool // its body is a form
	formless bool // it may be JSON all the same
	optional bool // the vendor has a model for requests that name none
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

// version is what the endpoints' paths begin with.
const version = "/v1"

// Path is the endpoint's path, as clients ask for it.
func (o *Operation) Path() string { return version + string(o.Endpoint) }

// Operations are all of them.
func Operations() []Operation { return slices.Clone(operations) }

// Find is the operation of a path; nil for any other path.
func Find(path string) *Operation {
	i := slices.IndexFunc(operations, func(o Operation) bool { return o.Path() == path })
	if i < 0 {
		return nil
	}
	return &operations[i]
}

// Makes says in a sentence what a model of this operation does.
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
	case policy.EndToEndEncryption:
		return "runs in an enclave that opens requests"
	}
	return "writes down speech"
}

// Sealed reports whether its requests are readable for an enclave alone.
func (o *Operation) Sealed() bool { return o.Feature == policy.EndToEndEncryption }

// images reports whether it makes images.
func (o *Operation) images() bool { return o.Feature == policy.ImageGeneration }

// audio reports whether its request or its answer is sound.
func (o *Operation) audio() bool {
	return o.Feature == policy.Speech || o.Feature == policy.Transcription
}
