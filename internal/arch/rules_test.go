package arch

// levels is the level of each package; the first matching pattern counts. A * is one path element, and a trailing /... is the package and all below
// it. Imports go to a lower level, and sideways only as sideways() allows.
var levels = []struct {
	level    int
	name     string
	packages []string
}{
	{0, "noun", []string{"extproc/chat", "policy", "internal/*"}},
	{1, "engine", []string{
		"extproc/pipeline", "extproc/provider", "extproc/provider/providertest", "extproc/transcript", "extproc/wire/...",
		"extproc/reasoning", "extproc/toolcall", "extproc/structured", "extproc/cache", "extproc/cache/disk", "extproc/cache/redis", "extproc/cache/semantic", "extproc/cache/cachetest", "extproc/render", "extproc/keyring", "extproc/hint", "extproc/conversation",
		"extproc/batch", "extproc/classifier", "extproc/deferred", "extproc/localembed", "extproc/memory", "extproc/meter", "extproc/pii", "extproc/stored", "extproc/stream", "extproc/stream/coroutine", "extproc/upstream", "extproc/record",
		"extproc/upload", "extproc/attestation", "extproc/cognition", "extproc/epoch", "extproc/injection", "extproc/savings", "extproc/governor", "extproc/x402",
		"policy/*", "policy/catalog/catalogtest", "policy/ledger/audit", "policy/ledger/chargelog", "policy/ledger/commit", "policy/ledger/keys", "policy/ledger/lock", "policy/ledger/losses", "policy/ledger/store", "policy/ledger/usage", "policy/ledger/postgres", "policy/ledger/postgres/postgrestest", "policy/pay/book", "policy/pay/reconcile", "policy/pay/till", "policy/pay/evm", "policy/pay/typed", "policy/pay/outgoing", "policy/pay/client", "policy/pay/paytest", "policy/pay/facilitator", "policy/pay/remote", "policy/quota/redis", "models", "models/*", "xds/state", "xds/peer", "xds/feed/feedpb", "envoy",
	}},
	{2, "part", []string{
		"extproc/api", "extproc/passthrough", "extproc/layers/*", "extproc/provider/*", "xds/snapshot", "xds/health",
		"extproc/cors", "extproc/realtime", "extproc/replay", "extproc/site", "extproc/mcp", "extproc/stream/duplex",
	}},
	{3, "step", []string{"extproc/modality", "extproc/review", "extproc/runtime", "extproc/request", "extproc/dryrun", "extproc/attempt", "extproc/probe", "extproc/endpoint", "extproc/side", "extproc/rounds", "extproc/later", "extproc/report", "extproc/reading", "extproc/funds", "extproc/effects", "extproc/outcome", "extproc/follow", "extproc/hedge", "extproc/ranking", "extproc/toolaccess"}},
	{4, "server", []string{"extproc", "extproc/stream/*", "xds", "xds/feed"}},
	{5, "program", []string{"cmd/...", "e2e/..."}},
}

// engines lists the engines, and the steps of a request, that may import others of their level, except in tests. Each line is a decision; the test
// reports unused ones.
var engines = map[string][]string{
	"envoy":                {"xds/state"},
	"extproc/cognition":    {"policy/attestation"},                                                              // what it shows of receipts
	"extproc/attestation":  {"extproc/cognition", "extproc/provider", "policy/attestation", "policy/e2ee"},      // the receipt of one call
	"extproc/hint":         {"policy/intent", "policy/privacy"},                                                 // an agent's parts and its kinds of task are closed sets
	"extproc/pipeline":     {"extproc/cache", "extproc/keyring", "extproc/transcript"},                          // an exchange holds its place in the cache, the answer that came of it, and which key is warm
	"extproc/wire/...":     {"extproc/wire", "extproc/wire/answer", "extproc/wire/errbody", "extproc/provider"}, // a dialect also writes a provider's call
	"extproc/structured":   {"extproc/wire", "policy/schema"},
	"extproc/transcript":   {"extproc/wire"},
	"extproc/request":      {"extproc/runtime"},
	"extproc/upload":       {"extproc/stream"}, // the body of a stream's request
	"extproc/probe":        {"extproc/runtime"},
	"extproc/attempt":      {"extproc/runtime", "extproc/request"},
	"extproc/review":       {"extproc/runtime", "extproc/request"},
	"extproc/side":         {"extproc/request", "extproc/attempt"},
	"extproc/rounds":       {"extproc/request"},
	"extproc/later":        {"extproc/runtime", "extproc/request", "extproc/attempt", "extproc/endpoint"},
	"extproc/report":       {"extproc/request", "extproc/attempt", "extproc/review", "extproc/later", "extproc/endpoint"}, // what these found out
	"extproc/reading":      {"extproc/request", "extproc/attempt", "extproc/review", "extproc/rounds", "extproc/report"},
	"extproc/funds":        {"extproc/request", "extproc/review", "extproc/report", "extproc/side", "extproc/endpoint"},
	"extproc/effects":      {"extproc/report", "extproc/rounds"}, // what the layers saved is read off the bill
	"extproc/ranking":      {"extproc/request", "extproc/report"},
	"extproc/outcome":      {"extproc/effects", "extproc/funds", "extproc/ranking", "extproc/reading", "extproc/report", "extproc/rounds", "extproc/attempt"}, // the end of them all
	"extproc/modality":     {"extproc/request"},
	"extproc/follow":       {"extproc/request", "extproc/runtime"},
	"extproc/hedge":        {"extproc/attempt", "extproc/reading"}, // it runs two attempts, and reads both answers
	"extproc/toolaccess":   {"extproc/request", "extproc/runtime"},
	"extproc/endpoint":     {"extproc/modality"}, // its operations have endpoints
	"extproc/dryrun":       {"extproc/runtime", "extproc/request"},
	"extproc/batch":        {"extproc/upstream", "xds/state"},                                                       // its calls go through the egress listener
	"extproc/deferred":     {"extproc/batch", "extproc/stream"},                                                     // it stores heads and answers
	"extproc/render":       {"extproc/reasoning"},                                                                   // what it shows is a chain
	"extproc/meter":        {"extproc/reasoning", "policy/budget", "policy/ledger", "policy/quota", "policy/spend"}, // limits, budgets and charges of one request
	"extproc/stream":       {"extproc/stream/coroutine", "xds/state"},                                               // what a handler is told of a thread; names of headers between the parts
	"policy/admin":         {"policy/auth", "policy/intent", "policy/ledger", "policy/ledger/usage"},                // what an operator does with keys and money
	"policy/pay/...":       {"policy/pay"},
	"policy/quota/redis":   {"policy/quota"},                              // it stores what that counts
	"policy/pay/book":      {"policy/ledger/lock", "policy/ledger/store"}, // in the database of the ledger, or in a file beside it
	"policy/pay/till":      {"policy/pay/book", "policy/ledger"},          // the states and the money of what it takes
	"policy/pay/reconcile": {"policy/pay/book", "policy/ledger"},
	"extproc/x402":         {"extproc/meter", "policy/ledger", "policy/pay", "policy/pay/book", "policy/pay/till"}, // a payer of a bill
	"policy/privy":         {"policy/auth", "policy/jwks"},
	"policy/oauth":         {"policy/auth", "policy/jwks"},
	"policy/identity":      {"policy/auth", "policy/pay"},                           // delegates are callers; addresses and networks
	"policy/pay/evm":       {"policy/identity", "policy/pay/typed", "policy/stake"}, // it reads agents and positions
	"policy/stake":         {"policy/pay"},                                          // addresses and networks
	"policy/pay/remote":    {"policy/identity", "policy/pay/typed", "policy/stake"}, // agents, signatures and positions are looked at in both processes
	"policy/pay/client":    {"policy/pay/outgoing", "policy/pay/typed"},             // what it signs is stored first
	"policy/resolve":       {"policy/catalog", "policy/budget", "policy/privacy"},   // what a wallet affords is one table
	"policy/intent":        {"policy/privacy"},                                      // what a class of tasks asks of a provider
	"policy/profile":       {"policy/intent"},
	"policy/ledger":        {"policy/ledger/audit", "policy/ledger/commit", "policy/ledger/keys", "policy/ledger/losses", "policy/ledger/usage", "policy/ledger/chargelog", "policy/ledger/lock", "policy/ledger/store"}, // accounts and gateways, which it builds on the others
	"policy/ledger/commit": {"policy/ledger/chargelog", "policy/ledger/store", "policy/ledger/usage"},                                                                                                                    // entries of the log are applied to the store, with their sums
	"policy/ledger/keys":   {"policy/ledger/store"},
	"policy/ledger/losses": {"policy/ledger/store"},
	"policy/ledger/store":  {"policy/ledger/lock"},
	"policy/ledger/usage":  {"policy/ledger/chargelog", "policy/ledger/store"},
	"policy/ledger/audit":  {"policy/ledger/chargelog", "policy/ledger/store"},
	"policy/budget":        {"policy/intent"}, // a budget belongs to an intent
	"models/wordpiece":     {"models/vocab"},  // the form of tokenizer files
	"models/unigram":       {"models/vocab"},
	"models":               {"models/manifest", "models/wordpiece", "models/unigram"},
	"models/remote":        {"models", "models/manifest"},
	"extproc/localembed":   {"extproc/wire", "models"},
	"extproc/memory":       {"policy/session"}, // it finds what sessions hold
	"extproc/classifier":   {"extproc/injection", "models", "policy/classify", "policy/intent"},
	"policy/classify":      {"policy/intent"}, // what it says is read there

	"extproc/cache/semantic": {"extproc/cache"},                           // it finds what that stores
	"extproc/cache/disk":     {"extproc/cache", "extproc/cache/semantic"}, // it keeps what these hold
	"extproc/cache/redis":    {"extproc/cache", "extproc/cache/semantic"}, // the same

	"extproc/wire/openai":      {"extproc/wire/openai/chatcompletion"},                                                                                                                                           // its answers
	"extproc/wire/anthropic":   {"extproc/wire/anthropic/message"},                                                                                                                                               // its answers
	"extproc/wire/embeddings":  {"extproc/wire/openai", "extproc/wire/openai/chatcompletion"},                                                                                                                    // a provider of that format makes them
	"extproc/wire/completions": {"extproc/wire/openai", "extproc/wire/openai/chatcompletion"},                                                                                                                    // its requests become that format's
	"extproc/wire/formats":     {"extproc/wire/anthropic/message", "extproc/wire/openai/chatcompletion", "extproc/wire/completions", "extproc/wire/embeddings", "extproc/wire/gemini", "extproc/wire/responses"}, // a table of them
	"extproc/wire/dual":        {"extproc/wire/anthropic", "extproc/wire/formats", "extproc/wire/openai"},                                                                                                        // which of them a family of models speaks
}

// outside lists the modules that only some packages may import, besides tests.
var outside = map[string][]string{
	"google.golang.org/grpc":                 {"extproc/stream/processor", "extproc/stream/duplex", "xds/...", "envoy"},
	"github.com/envoyproxy/go-control-plane": {"extproc/stream/processor", "xds/...", "envoy"},
	"github.com/yalue/onnxruntime_go":        {"models/onnx"},
	"cel.dev/cel-go":                         {"internal/rule"},
	"github.com/ethereum/go-ethereum":        {"policy/pay/evm", "e2e/anvil"},
	"github.com/jackc/pgx/v5":                {"policy/ledger/postgres"},
	"go.opentelemetry.io":                    {"cmd/bardo/otlp", "e2e/otelcol"},

	"github.com/modelcontextprotocol/go-sdk": nil, // only tests
}

// unreachable lists packages that a program must not contain.
var unreachable = map[string][]string{
	"cmd/bardo/libbardo": {
		"models/onnx",            // a fault of a C library would end Envoy; and the models are needed once per machine
		"policy/ledger/postgres", // a driver has goroutines of its own, whose panics would end Envoy
		"policy/pay/evm",
		"cmd/bardo/otlp", // an exporter's goroutines and connections do not belong there
		"cmd/bardo/notify",
		"cmd/bardo/clickhouse",
		"cmd/bardo/objectstore",
	},
}

// apart lists packages that the packages of a pattern may not import except in tests: their contents are passed down as values.
var apart = map[string][]string{
	"policy/*": {"internal/config"},
}

// environment lists the packages that may read environment variables, besides tests and their helpers.
var environment = []string{"cmd/...", "e2e/..."}

// plugged lists the folders whose packages have no effect until partsFile names them.
var plugged = []string{"extproc/layers/*", "extproc/provider/*"}

const partsFile = "cmd/bardo/parts/parts.go"
