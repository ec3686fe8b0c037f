// Package arch tests the gateway's structure: six levels, imports only downward, every part registered. It parses the source itself: a test that runs
// the go command is cached, and stays green after the source has changed.
package arch

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "bardo.money/gateway"

func TestTheTreeFollowsTheRules(t *testing.T) {
	files, err := read(os.DirFS("../.."), module)
	if err != nil {
		t.Fatal(err)
	}
	for _, broken := range check(files) {
		t.Error(broken)
	}
}

var soundTree = map[string]string{
	"policy/policy.go":                `package policy`,
	"extproc/chat/chat.go":            `package chat; import _ "bardo.money/gateway/policy"`,
	"extproc/wire/wire.go":            `package wire; import _ "bardo.money/gateway/extproc/chat"`,
	"extproc/wire/errbody/errbody.go": `package errbody`,
	"extproc/wire/answer/reader.go":   `package answer; import _ "bardo.money/gateway/extproc/wire/errbody"`,
	"extproc/wire/openai/openai.go": `package openai; import (_ "bardo.money/gateway/extproc/wire"
			_ "bardo.money/gateway/extproc/wire/answer"; _ "bardo.money/gateway/extproc/provider"
			_ "bardo.money/gateway/extproc/wire/openai/chatcompletion")`,
	"extproc/wire/openai/chatcompletion/doc.go": `package chatcompletion`,
	"extproc/wire/anthropic/doc.go":             `package anthropic; import _ "bardo.money/gateway/extproc/wire/anthropic/message"`,
	"extproc/wire/anthropic/message/doc.go":     `package message`,
	"extproc/wire/completions/detect.go": `package completions; import (_ "bardo.money/gateway/extproc/wire/openai"
			_ "bardo.money/gateway/extproc/wire/openai/chatcompletion")`,
	"extproc/wire/embeddings/dialect.go": `package embeddings; import (_ "bardo.money/gateway/extproc/wire/openai"
			_ "bardo.money/gateway/extproc/wire/openai/chatcompletion")`,
	"extproc/cache/cache.go":          `package cache`,
	"extproc/cache/semantic/index.go": `package semantic; import _ "bardo.money/gateway/extproc/cache"`,
	"extproc/cache/disk/disk.go":      `package disk; import (_ "bardo.money/gateway/extproc/cache"; _ "bardo.money/gateway/extproc/cache/semantic")`,
	"extproc/cache/redis/redis.go":    `package redis; import (_ "bardo.money/gateway/extproc/cache"; _ "bardo.money/gateway/extproc/cache/semantic")`,
	"extproc/classifier/classifier.go": `package classifier; import (_ "bardo.money/gateway/extproc/injection"; _ "bardo.money/gateway/models"; _ "bardo.money/gateway/policy/classify"
			_ "bardo.money/gateway/policy/intent")`,
	"extproc/cognition/record.go":      `package cognition; import _ "bardo.money/gateway/policy/attestation"`,
	"extproc/attestation/proof.go":     `package attestation; import (_ "bardo.money/gateway/extproc/cognition"; _ "bardo.money/gateway/extproc/provider"; _ "bardo.money/gateway/policy/attestation"; _ "bardo.money/gateway/policy/e2ee")`,
	"policy/e2ee/e2ee.go":              `package e2ee`,
	"policy/attestation/receipt.go":    `package attestation`,
	"extproc/memory/memory.go":         `package memory; import _ "bardo.money/gateway/policy/session"`,
	"policy/session/session.go":        `package session`,
	"extproc/localembed/localembed.go": `package localembed; import (_ "bardo.money/gateway/extproc/wire"; _ "bardo.money/gateway/models")`,
	"extproc/pipeline/pipeline.go": `package pipeline; import (_ "bardo.money/gateway/extproc/cache"; _ "bardo.money/gateway/extproc/keyring"
			_ "bardo.money/gateway/extproc/transcript")`,
	"extproc/transcript/transcript.go": `package transcript; import _ "bardo.money/gateway/extproc/wire"`,
	"extproc/keyring/keyring.go":       `package keyring`,
	"extproc/probe/probe.go":           `package probe; import _ "bardo.money/gateway/extproc/runtime"`,
	"extproc/meter/bill.go": `package meter; import (_ "bardo.money/gateway/policy/spend"; _ "bardo.money/gateway/extproc/reasoning"; _ "bardo.money/gateway/policy/budget"
			_ "bardo.money/gateway/policy/ledger"; _ "bardo.money/gateway/policy/quota")`,
	"extproc/upstream/failure.go": `package upstream`,
	"extproc/batch/batch.go":      `package batch; import (_ "bardo.money/gateway/extproc/upstream"; _ "bardo.money/gateway/xds/state")`,
	"extproc/deferred/store.go":   `package deferred; import (_ "bardo.money/gateway/extproc/batch"; _ "bardo.money/gateway/extproc/stream")`,
	"policy/ledger/ledger.go": `package ledger; import (_ "bardo.money/gateway/policy/ledger/audit"; _ "bardo.money/gateway/policy/ledger/chargelog"; _ "bardo.money/gateway/policy/ledger/commit"; _ "bardo.money/gateway/policy/ledger/keys"
			_ "bardo.money/gateway/policy/ledger/lock"; _ "bardo.money/gateway/policy/ledger/losses"; _ "bardo.money/gateway/policy/ledger/store"; _ "bardo.money/gateway/policy/ledger/usage")`,
	"policy/ledger/commit/writer.go": `package commit; import (_ "bardo.money/gateway/policy/ledger/chargelog"; _ "bardo.money/gateway/policy/ledger/store"; _ "bardo.money/gateway/policy/ledger/usage")`,
	"policy/ledger/lock/lock.go":     `package lock`,
	"policy/ledger/keys/keys.go":     `package keys; import _ "bardo.money/gateway/policy/ledger/store"`,
	"policy/ledger/losses/losses.go": `package losses; import _ "bardo.money/gateway/policy/ledger/store"`,
	"policy/ledger/store/book.go":    `package store; import _ "bardo.money/gateway/policy/ledger/lock"`,
	"policy/ledger/usage/view.go":    `package usage; import (_ "bardo.money/gateway/policy/ledger/chargelog"; _ "bardo.money/gateway/policy/ledger/store")`,
	"policy/ledger/audit/audit.go":   `package audit; import (_ "bardo.money/gateway/policy/ledger/chargelog"; _ "bardo.money/gateway/policy/ledger/store")`,
	"policy/ledger/chargelog/log.go": `package chargelog`,
	"policy/quota/quota.go":          `package quota`,
	"policy/spend/spend.go":          `package spend`,
	"policy/pay/pay.go":              `package pay`,
	"policy/auth/auth.go":            `package auth`,
	"policy/identity/identity.go":    `package identity; import (_ "bardo.money/gateway/policy/auth"; _ "bardo.money/gateway/policy/pay")`,
	"policy/pay/evm/agents.go":       `package evm; import (_ "bardo.money/gateway/policy/identity"; _ "bardo.money/gateway/policy/pay/typed"; _ "bardo.money/gateway/policy/stake")`,
	"policy/stake/stake.go":          `package stake; import _ "bardo.money/gateway/policy/pay"`,
	"policy/pay/typed/typed.go":      `package typed; import _ "bardo.money/gateway/policy/pay"`,
	"policy/pay/remote/remote.go":    `package remote; import (_ "bardo.money/gateway/policy/identity"; _ "bardo.money/gateway/policy/pay/typed"; _ "bardo.money/gateway/policy/stake")`,
	"policy/pay/client/client.go":    `package client; import (_ "bardo.money/gateway/policy/pay/outgoing"; _ "bardo.money/gateway/policy/pay/typed")`,
	"policy/quota/redis/redis.go":    `package redis; import _ "bardo.money/gateway/policy/quota"`,
	"policy/privy/privy.go":          `package privy; import (_ "bardo.money/gateway/policy/auth"; _ "bardo.money/gateway/policy/jwks")`,
	"policy/oauth/oauth.go":          `package oauth; import (_ "bardo.money/gateway/policy/auth"; _ "bardo.money/gateway/policy/jwks")`,
	"policy/jwks/jwks.go":            `package jwks`,
	"policy/pay/book/book.go":        `package book; import (_ "bardo.money/gateway/policy/pay"; _ "bardo.money/gateway/policy/ledger/lock"; _ "bardo.money/gateway/policy/ledger/store")`,
	"policy/pay/reconcile/reconcile.go": `package reconcile; import (_ "bardo.money/gateway/policy/pay"; _ "bardo.money/gateway/policy/pay/book"
			_ "bardo.money/gateway/policy/ledger")`,
	"policy/pay/till/till.go": `package till; import (_ "bardo.money/gateway/policy/pay"; _ "bardo.money/gateway/policy/pay/book"
			_ "bardo.money/gateway/policy/ledger")`,
	"extproc/x402/x402.go": `package x402; import (_ "bardo.money/gateway/extproc/meter"; _ "bardo.money/gateway/policy/ledger"
			_ "bardo.money/gateway/policy/pay"; _ "bardo.money/gateway/policy/pay/book"; _ "bardo.money/gateway/policy/pay/till")`,
	"policy/catalog/catalog.go": `package catalog`,
	"policy/admin/admin.go": `package admin; import (_ "bardo.money/gateway/policy/auth"; _ "bardo.money/gateway/policy/intent"; _ "bardo.money/gateway/policy/ledger/usage"
			_ "bardo.money/gateway/policy/ledger")`,
	"policy/privacy/class.go":             `package privacy`,
	"policy/intent/intent.go":             `package intent; import _ "bardo.money/gateway/policy/privacy"`,
	"policy/classify/classify.go":         `package classify; import _ "bardo.money/gateway/policy/intent"`,
	"policy/profile/profile.go":           `package profile; import _ "bardo.money/gateway/policy/intent"`,
	"policy/budget/budget.go":             `package budget; import _ "bardo.money/gateway/policy/intent"`,
	"policy/schema/schema.go":             `package schema`,
	"extproc/structured/form.go":          `package structured; import _ "bardo.money/gateway/extproc/wire"; import _ "bardo.money/gateway/policy/schema"`,
	"extproc/hint/hint.go":                `package hint; import _ "bardo.money/gateway/policy/intent"; import _ "bardo.money/gateway/policy/privacy"`,
	"extproc/reasoning/chain.go":          `package reasoning`,
	"extproc/render/member.go":            `package render; import _ "bardo.money/gateway/extproc/reasoning"`,
	"policy/resolve/resolve.go":           "package resolve\nimport _ \"bardo.money/gateway/policy/catalog\"\nimport _ \"bardo.money/gateway/policy/budget\"\nimport _ \"bardo.money/gateway/policy/privacy\"",
	"xds/state/state.go":                  `package state`,
	"envoy/envoy.go":                      `package envoy; import (_ "bardo.money/gateway/xds/state"; _ "google.golang.org/grpc")`,
	"extproc/provider/provider.go":        `package provider`,
	"extproc/provider/anthropic/adapt.go": `package anthropic; import _ "bardo.money/gateway/extproc/provider"`,
	"extproc/layers/mask/mask.go":         `package mask`,
	"extproc/wire/dual/dual.go": `package dual; import (_ "bardo.money/gateway/extproc/wire/anthropic"
			_ "bardo.money/gateway/extproc/wire/openai"; _ "bardo.money/gateway/extproc/wire/formats")`,
	"extproc/wire/gemini/doc.go":    `package gemini`,
	"extproc/wire/responses/doc.go": `package responses`,
	"extproc/wire/formats/formats.go": `package formats; import (_ "bardo.money/gateway/extproc/wire/anthropic/message"
			_ "bardo.money/gateway/extproc/wire/openai/chatcompletion"; _ "bardo.money/gateway/extproc/wire/completions"
			_ "bardo.money/gateway/extproc/wire/embeddings"; _ "bardo.money/gateway/extproc/wire/gemini"; _ "bardo.money/gateway/extproc/wire/responses")`,
	"extproc/runtime/runtime.go": `package runtime`,
	"extproc/request/view.go":    `package request; import _ "bardo.money/gateway/extproc/runtime"`,
	"extproc/upload/upload.go":   `package upload; import _ "bardo.money/gateway/extproc/stream"`,
	"extproc/dryrun/dryrun.go":   `package dryrun; import (_ "bardo.money/gateway/extproc/runtime"; _ "bardo.money/gateway/extproc/request")`,
	"extproc/review/review.go":   `package review; import (_ "bardo.money/gateway/extproc/runtime"; _ "bardo.money/gateway/extproc/request")`,
	"extproc/rounds/gate.go":     `package rounds; import _ "bardo.money/gateway/extproc/request"`,
	"extproc/later/run.go":       `package later; import (_ "bardo.money/gateway/extproc/runtime"; _ "bardo.money/gateway/extproc/attempt"; _ "bardo.money/gateway/extproc/request"; _ "bardo.money/gateway/extproc/endpoint")`,
	"extproc/report/report.go": `package report; import (_ "bardo.money/gateway/extproc/attempt"; _ "bardo.money/gateway/extproc/request"; _ "bardo.money/gateway/extproc/review"
			_ "bardo.money/gateway/extproc/later"; _ "bardo.money/gateway/extproc/endpoint")`,
	"extproc/reading/reading.go": `package reading; import (_ "bardo.money/gateway/extproc/attempt"; _ "bardo.money/gateway/extproc/request"; _ "bardo.money/gateway/extproc/review"
			_ "bardo.money/gateway/extproc/rounds"; _ "bardo.money/gateway/extproc/report")`,
	"extproc/funds/funds.go": `package funds; import (_ "bardo.money/gateway/extproc/request"; _ "bardo.money/gateway/extproc/review"; _ "bardo.money/gateway/extproc/side"; _ "bardo.money/gateway/extproc/endpoint"
			_ "bardo.money/gateway/extproc/report")`,
	"extproc/effects/effects.go": `package effects; import (_ "bardo.money/gateway/extproc/report"; _ "bardo.money/gateway/extproc/rounds")`,
	"extproc/outcome/outcome.go": `package outcome; import (_ "bardo.money/gateway/extproc/effects"; _ "bardo.money/gateway/extproc/funds"; _ "bardo.money/gateway/extproc/ranking"
		_ "bardo.money/gateway/extproc/reading"; _ "bardo.money/gateway/extproc/report"; _ "bardo.money/gateway/extproc/rounds"; _ "bardo.money/gateway/extproc/attempt")`,
	"extproc/ranking/ranking.go":         `package ranking; import (_ "bardo.money/gateway/extproc/request"; _ "bardo.money/gateway/extproc/report")`,
	"extproc/toolaccess/access.go":       `package toolaccess; import (_ "bardo.money/gateway/extproc/runtime"; _ "bardo.money/gateway/extproc/request")`,
	"extproc/hedge/race.go":              `package hedge; import (_ "bardo.money/gateway/extproc/attempt"; _ "bardo.money/gateway/extproc/reading")`,
	"extproc/follow/follow.go":           `package follow; import (_ "bardo.money/gateway/extproc/runtime"; _ "bardo.money/gateway/extproc/request")`,
	"extproc/side/side.go":               `package side; import (_ "bardo.money/gateway/extproc/attempt"; _ "bardo.money/gateway/extproc/request")`,
	"extproc/endpoint/endpoint.go":       `package endpoint; import _ "bardo.money/gateway/extproc/modality"`,
	"extproc/modality/candidates.go":     `package modality; import _ "bardo.money/gateway/extproc/request"`,
	"extproc/attempt/attempt.go":         `package attempt; import (_ "bardo.money/gateway/extproc/runtime"; _ "bardo.money/gateway/extproc/request")`,
	"extproc/gateway.go":                 `package extproc; import (_ "bardo.money/gateway/extproc/chat"; _ "bardo.money/gateway/extproc/stream")`,
	"extproc/stream/head.go":             `package stream; import (_ "bardo.money/gateway/extproc/stream/coroutine"; _ "bardo.money/gateway/xds/state")`,
	"extproc/stream/processor/server.go": `package processor; import (_ "bardo.money/gateway/extproc/stream"; _ "google.golang.org/grpc")`,
	"models/vocab/vocab.go":              `package vocab`,
	"models/wordpiece/wordpiece.go":      `package wordpiece; import _ "bardo.money/gateway/models/vocab"`,
	"models/manifest/manifest.go":        `package manifest`,
	"models/models.go":                   `package models; import (_ "bardo.money/gateway/models/manifest"; _ "bardo.money/gateway/models/wordpiece"; _ "bardo.money/gateway/models/unigram")`,
	"models/unigram/unigram.go":          `package unigram; import _ "bardo.money/gateway/models/vocab"`,
	"models/remote/client.go":            `package remote; import (_ "bardo.money/gateway/models"; _ "bardo.money/gateway/models/manifest")`,
	"models/onnx/onnx.go":                `package onnx; import _ "github.com/yalue/onnxruntime_go"`,
	"cmd/bardo/libbardo/main.go":         `package main; import _ "bardo.money/gateway/cmd/bardo/parts"`,
	"internal/envoytest/binary.go":       `package envoytest; import "os"; var Bin = os.Getenv("ENVOY_BIN")`,
	"cmd/bardo/main.go":                  `package main; import "os"; func main() { os.Getenv("HOME") }`,
	"cmd/bardo/parts/parts.go": `package parts; import (_ "bardo.money/gateway/extproc/layers/mask"
			_ "bardo.money/gateway/extproc/provider/anthropic")`,
	"e2e/fake/fake.go":      `package fake`,
	"e2e/bench/main.go":     `package main; import _ "bardo.money/gateway/e2e/fake"`,
	"internal/.old/old.go":  `package broken; import "bardo.money/gateway/cmd/bardo"`,
	"envoy/testdata/bad.go": `not Go at all`,
}

// sound returns a small tree that breaks no rule and uses every line of the engines' table.
func sound() map[string]string {
	return maps.Clone(soundTree)
}

var ruleCases = []struct {
	name   string
	change map[string]string // files laid over the sound tree
	want   []string
}{
	{"a sound tree passes", nil, nil},
	{
		"a layer imports a provider",
		map[string]string{"extproc/layers/mask/mask.go": `package mask; import _ "bardo.money/gateway/extproc/provider/anthropic"`},
		[]string{"extproc/layers/mask/mask.go: part extproc/layers/mask imports part extproc/provider/anthropic: what two of them share moves one level down"},
	},
	{
		"a layer imports the contract that providers fulfil",
		map[string]string{"extproc/layers/mask/mask.go": `package mask; import _ "bardo.money/gateway/extproc/provider"`},
		nil,
	},
	{
		"a provider's test imports another provider",
		map[string]string{
			"extproc/provider/anthropic/adapt_test.go": `package anthropic_test; import (_ "bardo.money/gateway/extproc/provider/demo"; _ "bardo.money/gateway/extproc/provider/anthropic")`,
		},
		[]string{"extproc/provider/anthropic/adapt_test.go: part extproc/provider/anthropic imports part extproc/provider/demo: what two of them share moves one level down"},
	},
	{
		"a noun imports an engine",
		map[string]string{"extproc/chat/chat.go": `package chat; import w "bardo.money/gateway/extproc/wire"; var _ w.X`},
		[]string{"extproc/chat/chat.go: noun extproc/chat imports engine extproc/wire: imports go only downward"},
	},
	{
		"an engine imports a server, behind a build tag",
		map[string]string{"policy/catalog/windows.go": "//go:build windows\n\npackage catalog; import _ \"bardo.money/gateway/xds\""},
		[]string{"policy/catalog/windows.go: engine policy/catalog imports server xds: imports go only downward"},
	},
	{
		"servers know each other",
		map[string]string{"extproc/server.go": `package extproc; import _ "bardo.money/gateway/xds"`},
		[]string{"extproc/server.go: server extproc imports server xds: what two of them share moves one level down"},
	},
	{
		"the packages of a program import each other",
		map[string]string{
			"cmd/bardo/run/up.go":   `package run; import _ "bardo.money/gateway/cmd/bardo/home"`,
			"cmd/bardo/home/dir.go": `package home`,
		},
		nil,
	},
	{
		"a program imports the end-to-end tests",
		map[string]string{"cmd/bardo/main.go": `package main; import _ "bardo.money/gateway/e2e/fake"`},
		[]string{"cmd/bardo/main.go: program cmd/bardo imports program e2e/fake: what two of them share moves one level down"},
	},
	{
		"an engine imports one that the table does not give it",
		map[string]string{"policy/catalog/catalog.go": `package catalog; import _ "bardo.money/gateway/xds/state"`},
		[]string{"policy/catalog/catalog.go: engine policy/catalog imports engine xds/state: what two of them share moves one level down"},
	},
	{
		"an engine's test imports another engine",
		map[string]string{"policy/catalog/catalog_test.go": `package catalog; import _ "bardo.money/gateway/xds/state"`},
		nil,
	},
	{
		"the test that all providers pass knows dialects, and no provider",
		map[string]string{
			"extproc/provider/providertest/run.go":      `package providertest; import _ "bardo.money/gateway/extproc/wire/openai"`,
			"extproc/provider/providertest/run_test.go": `package providertest; import _ "bardo.money/gateway/extproc/provider/anthropic"`,
		},
		[]string{"extproc/provider/providertest/run_test.go: engine extproc/provider/providertest imports part extproc/provider/anthropic: imports go only downward"},
	},
	{
		"the table allows what nothing does",
		map[string]string{"policy/resolve/resolve.go": `package resolve`},
		[]string{
			"rules: nothing in policy/resolve imports policy/budget any more: take it from the list of engines",
			"rules: nothing in policy/resolve imports policy/catalog any more: take it from the list of engines",
			"rules: nothing in policy/resolve imports policy/privacy any more: take it from the list of engines",
		},
	},
	{
		"a package stands nowhere",
		map[string]string{"extproc/util/util.go": `package util`},
		[]string{"extproc/util/util.go: package extproc/util has no level: add it to the table in internal/arch"},
	},
	{
		"a provider and a layer are not plugged in",
		map[string]string{"cmd/bardo/parts/parts.go": `package parts`},
		[]string{
			"cmd/bardo/parts/parts.go: does not name extproc/layers/mask, so no gateway has it",
			"cmd/bardo/parts/parts.go: does not name extproc/provider/anthropic, so no gateway has it",
		},
	},
	{
		"a part is named in another file than parts.go",
		map[string]string{
			"cmd/bardo/parts/parts.go": `package parts; import _ "bardo.money/gateway/extproc/provider/anthropic"`,
			"cmd/bardo/main.go":        `package main; import _ "bardo.money/gateway/extproc/layers/mask"`,
		},
		[]string{"cmd/bardo/parts/parts.go: does not name extproc/layers/mask, so no gateway has it"},
	},
	{
		"an engine knows gRPC",
		map[string]string{"extproc/wire/wire.go": `package wire; import _ "google.golang.org/grpc/codes"`},
		[]string{"extproc/wire/wire.go: package extproc/wire imports google.golang.org/grpc/codes: only extproc/stream/processor, extproc/stream/duplex, xds/..., envoy may"},
	},
	{
		"an engine's test knows gRPC",
		map[string]string{"extproc/wire/wire_test.go": `package wire; import _ "google.golang.org/grpc/codes"`},
		nil,
	},
	{
		"a noun knows Envoy's protobufs",
		map[string]string{"policy/policy.go": `package policy; import _ "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"`},
		[]string{"policy/policy.go: package policy imports github.com/envoyproxy/go-control-plane/envoy/config/core/v3: only extproc/stream/processor, xds/..., envoy may"},
	},
	{
		"Envoy's process would contain ONNX Runtime",
		map[string]string{
			"cmd/bardo/parts/parts.go": `package parts; import (_ "bardo.money/gateway/extproc/layers/mask"
			_ "bardo.money/gateway/extproc/provider/anthropic"; _ "bardo.money/gateway/cmd/bardo/run")`,
			"cmd/bardo/run/up.go":      `package run; import _ "bardo.money/gateway/models/onnx"`,
			"cmd/bardo/run/up_test.go": `package run; import _ "bardo.money/gateway/cmd/bardo/libbardo"`,
		},
		[]string{"cmd/bardo/libbardo: contains models/onnx, by cmd/bardo/run: only other programs may"},
	},
	{
		"a package besides models/onnx runs models",
		map[string]string{"models/wordpiece/more.go": `package wordpiece; import _ "github.com/yalue/onnxruntime_go"`},
		[]string{"models/wordpiece/more.go: package models/wordpiece imports github.com/yalue/onnxruntime_go: only models/onnx may"},
	},
	{
		"a policy imports the configuration",
		map[string]string{
			"policy/catalog/catalog.go":      `package catalog; import _ "bardo.money/gateway/internal/config"`,
			"policy/catalog/catalog_test.go": `package catalog; import _ "bardo.money/gateway/internal/config"`,
		},
		[]string{"policy/catalog/catalog.go: package policy/catalog imports internal/config: pass values down instead"},
	},
	{
		"a server reads the environment",
		map[string]string{"extproc/server.go": `package extproc; import host "os"; func f() { _, _ = host.LookupEnv("HOME") }`},
		[]string{"extproc/server.go: package extproc reads the environment: only cmd/..., e2e/... may; pass the value down from there"},
	},
	{
		"a package is too long",
		map[string]string{
			"policy/catalog/catalog.go":      "package catalog\n" + strings.Repeat("\n", 4000),
			"policy/catalog/more.go":         "package catalog\n" + strings.Repeat("\n", 999),
			"policy/catalog/catalog_test.go": "package catalog\n" + strings.Repeat("\n", 4000),
			"policy/resolve/list.pb.go":      "// Code generated by hand. DO NOT EDIT.\n\npackage resolve\n" + strings.Repeat("\n", 9000),
		},
		[]string{"policy/catalog: 5001 lines without tests, more than 5000: a part of it is a package of its own"},
	},
	{
		"packages contain C",
		map[string]string{
			"policy/catalog/c.go": "package catalog\n\n// #include <stdlib.h>\nimport \"C\"",
			"policy/resolve/c.go": "package resolve\n\n/*\n#cgo CFLAGS: -I${SRCDIR}\n#include <stdlib.h>\n*/\nimport \"C\"",
			"policy/resolve/d.go": "package resolve\n\nimport \"C\"",
		},
		[]string{"policy/catalog: contains C without '#cgo CFLAGS: -I${SRCDIR}', see extproc/stream/module"},
	},
	{
		"a server opens a file",
		map[string]string{"extproc/server.go": `package extproc; import "os"; func f() { _, _ = os.Open("x") }`},
		nil,
	},
}

func TestRules(t *testing.T) {
	tests := ruleCases
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := sound()
			maps.Copy(tree, tt.change)
			files, err := read(mapFS(tree), module)
			if err != nil {
				t.Fatal(err)
			}
			if got := check(files); !slices.Equal(got, tt.want) {
				t.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(tt.want, "\n\t"))
			}
		})
	}
}

func TestAFileThatIsNotGoIsAnError(t *testing.T) {
	if _, err := read(mapFS(map[string]string{"policy/policy.go": "package"}), module); err == nil {
		t.Error("no error")
	}
}

func mapFS(files map[string]string) fstest.MapFS {
	tree := fstest.MapFS{}
	for name, src := range files {
		tree[name] = &fstest.MapFile{Data: []byte(src)}
	}
	return tree
}
