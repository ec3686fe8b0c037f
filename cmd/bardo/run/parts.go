package run

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/cmd/bardo/control"
	"bardo.money/gateway/cmd/bardo/identities"
	"bardo.money/gateway/cmd/bardo/run/export"
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/extproc/cache"
	"bardo.money/gateway/extproc/cache/semantic"
	"bardo.money/gateway/extproc/chat"
	"bardo.money/gateway/extproc/dryrun"
	"bardo.money/gateway/extproc/layers/affinity"
	"bardo.money/gateway/extproc/layers/defi"
	"bardo.money/gateway/extproc/layers/toolprune"
	"bardo.money/gateway/extproc/memory"
	"bardo.money/gateway/extproc/pipeline"
	"bardo.money/gateway/extproc/provider"
	"bardo.money/gateway/extproc/wire"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models"
	"bardo.money/gateway/policy/auth"
	"bardo.money/gateway/policy/pay"
	"bardo.money/gateway/policy/stake"
)

// Parts are the components of a gateway. Package parts lists them.
type Parts struct {
	Adapters  []provider.Described
	Dialects  map[chat.Dialect]wire.Dialect
	Layers    Layers
	Verifiers func(*auth.APIKeys) auth.Chain
	Explain   Explainer
	Runtime   ModelRuntime // nil: this program runs no local models
	Chain     ChainOpener  // nil: this program takes no payments

	Agents identities.Opener // nil: this program reads no registries of agents
	Stake  stake.Opener      // nil: this program reads no staked VVV

	Exporter export.Opener                                     // nil: this program exports no telemetry
	Usage    func(context.Context, *export.UsageOptions) error // exports usage until its context is done; nil: this program does not
	Notifier func(*alerts.Options) alerts.Opener               // nil: this program sends no notifications
}

// ModelRuntime loads the library that runs local models.
type ModelRuntime func(library string) (models.Runtime, error)

// ChainOpener creates a client of a chain's node. It does not connect yet.
type ChainOpener func(ctx context.Context, o pay.NodeOptions) (pay.Chain, error)

// Layers builds the context pipeline of a configuration, in order of execution. It is called again for each reload, not concurrently.
type Layers func(cfg *config.Config, s *Services) []pipeline.Layer

// Services are what layers of any configuration use. What is not available is nil.
type Services struct {
	Answers       *cache.Store      // the gateway's stored answers
	Secret        func() []byte     // that keys are derived from
	Embedder      models.Embedder   // never nil: without a local model its errors wrap models.ErrOff
	Classifier    models.Classifier // as Embedder
	Recognizer    models.Recognizer // as Embedder
	SecondOpinion models.Classifier // for second opinions about injections; nil: none
	Facts         *defi.Facts       // the operator's, from the configuration
	Metrics       *telemetry.Metrics
	Events        *event.Sink
	Log           *slog.Logger
	Prompts       *prompts.Log // nil: prompts are not logged

	Questions *semantic.Index       // of the stored answers
	Vectors   toolprune.VectorStore // nil: vectors are kept in memory
	Meaning   *semantic.Model       // compares questions; nil: no comparison

	Memory        *memory.Memory  // of agents' sessions; nil: sessions are off
	Conversations affinity.Shared // the providers of conversations, shared between gateways; nil: not shared

	Egress       *http.Client  // makes calls through Envoy, for live exchanges
	EgressSecret func() string // the secret of the egress listener, which the control plane may change
}

// Explainer answers a dry run (`bardo route`) with the configuration in force. The error is about the query. Safe for concurrent use.
type Explainer func(q url.Values, gate *extproc.Gateway, states []control.Provider) (dryrun.Result, error)
