package run

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"bardo.money/gateway/cmd/bardo/alerts"
	"bardo.money/gateway/cmd/bardo/answers"
	"bardo.money/gateway/cmd/bardo/home"
	"bardo.money/gateway/cmd/bardo/identities"
	"bardo.money/gateway/cmd/bardo/limits"
	"bardo.money/gateway/cmd/bardo/onchain"
	"bardo.money/gateway/cmd/bardo/payments"
	"bardo.money/gateway/cmd/bardo/run/auditing"
	"bardo.money/gateway/cmd/bardo/run/module"
	"bardo.money/gateway/cmd/bardo/run/split"
	"bardo.money/gateway/cmd/bardo/settings"
	"bardo.money/gateway/cmd/bardo/staking"
	"bardo.money/gateway/cmd/bardo/wallet"
	"bardo.money/gateway/envoy"
	"bardo.money/gateway/extproc"
	"bardo.money/gateway/extproc/deferred"
	"bardo.money/gateway/extproc/localembed"
	"bardo.money/gateway/extproc/memory"
	"bardo.money/gateway/extproc/record"
	"bardo.money/gateway/extproc/runtime"
	"bardo.money/gateway/internal/config"
	"bardo.money/gateway/internal/event"
	"bardo.money/gateway/internal/prompts"
	"bardo.money/gateway/internal/secret"
	"bardo.money/gateway/internal/telemetry"
	"bardo.money/gateway/models"
	"bardo.money/gateway/models/remote"
	"bardo.money/gateway/policy/attestation"
	"bardo.money/gateway/policy/catalog"
	"bardo.money/gateway/policy/ledger"
	"bardo.money/gateway/policy/session"
	"bardo.money/gateway/xds"
	"bardo.money/gateway/xds/feed"
	"bardo.money/gateway/xds/health"
)

// gateway is the state of this process, grouped by owner. What a role does not need is nil. Methods that need one group alone are declared on that group.
type gateway struct {
	roles
	start
	reporting
	configuration
	dataPath
	controlPlane
	connections
	localModels
	shutdown
}

// roles say which parts of the gateway run in this process.
type roles struct {
	data, control, envoy bool

	module bool // the data path is in the process of this program's Envoy
	inside bool // this process is that Envoy
}

// start is what the gateway was started with. It is immutable.
type start struct {
	parts     Parts
	port      portFlag
	home      home.Dir
	started   time.Time
	out       io.Writer // standard output
	errOut    io.Writer // standard error
	parentPID int       // process id of the program that started Envoy; 0 in that program
}

// reporting is the log, metrics and events.
type reporting struct {
	secrets atomic.Pointer[secret.Redactor] // secrets that are redacted from logs and events
	log     *slog.Logger
	level   *slog.LevelVar
	metrics *telemetry.Metrics
	events  event.Sink
	audit   auditing.Log
	prompts *prompts.Log
}

// localModels are the models that run on this machine. A control plane that runs alone has none.
type localModels struct {
	secondHost *models.Host // for second opinions about injections; nil: none

	local       *models.Host      // runs models in this process; nil in Envoy's
	remote      *remote.Client    // in Envoy's process: calls the models of the program that started it
	vectors     *localembed.Model // the embedder as clients see it; nil: none is configured
	localLoaded sync.WaitGroup    // waits for models that are loaded at the start
}

// configuration is the configuration in force, and what is needed to reload it.
type configuration struct {
	cfg           atomic.Pointer[config.Config]
	configPath    string
	startInfo     os.FileInfo                  // of the configuration file; nil if there is none
	startConfig   *config.Config               // nil: unknown
	readFile      func(string) ([]byte, error) // reads the configuration file
	reloads       chan reloadRequest
	conf          configState
	configChanged chan struct{} // signals that the configuration has changed
}

// dataPath serves requests. In a control plane that runs alone it is empty, except for models.
type dataPath struct {
	books        *ledger.Ledger
	store        string // control.StoreID of the ledger
	limiter      *limits.Limits
	answers      *answers.Stores // stored answers
	finished     event.Feed[record.Finished]
	alerts       event.Feed[alerts.Alert]
	lists        *settings.Lists  // providers' own lists of models
	listsChanged chan struct{}    // signals that lists have changed, or prices by the time of day
	models       *catalog.Catalog // of the last configuration; used only by opening and reloading, one at a time
	gate         *extproc.Gateway
	sessions     *session.SQLite   // nil: sessions are off
	attestations *attestation.Book // tokens of attested answers
	memory       *memory.Memory    // of sessions; nil if sessions are
	deferred     *deferred.Service // nil: deferred requests are off
	payments     *payments.Desk    // nil: payments per request are off

	wallet     *wallet.Monitor  // of the operator's account at Bankr
	stake      *staking.Manager // of the Venice key whose limit follows staked VVV
	wallets    *onchain.Wallets // that providers are paid from; nil: none
	mcpTokens  *identities.MCPTokens
	identities *identities.Identities // nil: no identities are linked to accounts
	calls      http.RoundTripper      // makes the calls of exchanges in Envoy's process; nil: through the egress listener
	applyMu    sync.Mutex             // in Envoy's process: serialises configuration changes

	runtimeMu   sync.Mutex // guards runtime
	runtime     *runtime.Config
	stopWaiting func() // cancels the wait of a reloaded configuration for its clusters
}

// controlPlane configures Envoys, and distributes the provider order.
type controlPlane struct {
	tracker *health.Tracker
	server  *xds.Server
	feed    *feed.Server // of a control plane that runs alone, or with the data path in Envoy's process

	offeredMu sync.Mutex // guards offered
	offered   offered
}

// connections are how this process reaches Envoy and the other processes of the gateway.
type connections struct {
	sockets          sockets
	child            *envoy.Process // of `bardo up`
	inEnvoy          *module.Client // the data path in the child's process; nil: it is elsewhere
	addressesChanged chan struct{}  // signals that Envoy's listeners may have changed
	split            split.Peers
	link             *link  // of a sidecar that runs alone
	secret           string // of the egress listener, unless the control plane provides it

	adminToken string // of the admin API, if the configuration has none

	chain http.Handler // serves chain calls of a data path in the child's process; nil: payments are off
}

// shutdown is the progress of the program between its start and its exit.
type shutdown struct {
	ready    atomic.Bool
	draining atomic.Bool
	ending   atomic.Pointer[ending] // nil before the stop
	stopping chan struct{}          // closed once ending is set
}
