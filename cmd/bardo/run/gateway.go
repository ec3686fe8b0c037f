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

// gateway is everything that runs in this process, by owner. What a role does not need is nil. A method that needs one owner alone is a
// method of that one.
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

// roles are the parts of the gateway that run in one process.
type roles struct {
	data, control, envoy bool

	module bool // the data path is in the process of this program's Envoy
	inside bool // this process is that Envoy
}

// start is what the gateway was started with. It does not change.
type start struct {
	parts   Parts
	port    portFlag
	home    home.Dir
	started time.Time
	out     io.Writer // standard output
	errOut  io.Writer // standard error
	by      int       // process id of the program that started Envoy; 0 for this one
}

// reporting is what operators see of the gateway: log, metrics and events.
type reporting struct {
	secrets atomic.Pointer[secret.Redactor] // nothing is logged or emitted with one of them in it
	log     *slog.Logger
	level   *slog.LevelVar
	metrics *telemetry.Metrics
	events  event.Sink
	audit   auditing.Log
	prompts *prompts.Log
}

// localModels are those of this machine. A control plane that runs alone has none.
type localModels struct {
	second *models.Host // of second opinions; nil for none

	local       *models.Host      // in this process; nil in Envoy's
	remote      *remote.Client    // in Envoy's process: those of the program that started it
	vectors     *localembed.Model // the embedder as clients see it; nil if none is chosen
	localLoaded sync.WaitGroup    // the models that are read at the start
}

// configuration is the one in force, and what reads the next one.
type configuration struct {
	cfg         atomic.Pointer[config.Config]
	configPath  string
	startedFrom os.FileInfo                  // of the configuration file; nil if there is none
	startedWith *config.Config               // nil: that is not known
	readFile    func(string) ([]byte, error) // reads it
	reloads     chan reloadRequest
	conf        configState
	configured  chan struct{} // the configuration has changed
}

// dataPath serves requests. It is empty in a control plane that runs alone, but for models.
type dataPath struct {
	books    *ledger.Ledger
	store    string // its control.StoreID
	limiter  *limits.Limits
	answers  *answers.Stores // served again
	finished event.Feed[record.Finished]
	alerts   event.Feed[alerts.Alert]
	lists    *settings.Lists  // providers' own lists of models
	listed   chan struct{}    // lists have changed, or prices by the time of the day
	models   *catalog.Catalog // of the last configuration; opening and reloading use it, one at a time
	gate     *extproc.Gateway
	sessions *session.SQLite   // nil: no sessions are kept
	attested *attestation.Book // tokens of attested answers
	memory   *memory.Memory    // of sessions; nil where these are
	later    *deferred.Service // nil: no requests are deferred
	payments *payments.Desk    // nil: single requests cannot be paid for

	wallet     *wallet.Monitor        // of the operator's account at Bankr
	stake      *staking.Manager       // of the key at Venice that follows staked VVV
	wallets    *onchain.Wallets       // that providers are paid from; nil: none
	identities *identities.Identities // nil: none are linked to accounts
	calls      http.RoundTripper      // of exchanges in Envoy's process; nil for the egress listener
	applying   sync.Mutex             // in Envoy's process: one configuration at a time

	using       sync.Mutex // guards runtime
	runtime     *runtime.Config
	stopWaiting func() // ends the wait of a reloaded configuration for its clusters
}

// controlPlane gives Envoys their configuration, and providers their order.
type controlPlane struct {
	tracker *health.Tracker
	server  *xds.Server
	feed    *feed.Server // of a control plane that runs alone

	pushing sync.Mutex // guards offered
	offered offered
}

// connections are how this process reaches Envoy and the other parts of the gateway.
type connections struct {
	sockets sockets
	child   *envoy.Process // of `bardo up`
	inEnvoy *dataModule    // the data path in the child's process, if it is there
	moved   chan struct{}  // Envoy may listen elsewhere
	split   split
	link    *link  // of a sidecar that runs alone
	secret  string // of the egress listener, where no control plane says it

	adminToken string // of the admin API, where the configuration has none

	chain http.Handler // is asked by a data path in the child's process; nil where no payments are taken
}

// shutdown is how far the gateway is from its start to its end.
type shutdown struct {
	ready    atomic.Bool
	draining atomic.Bool
	ending   atomic.Pointer[ending] // nil before the stop
	stopping chan struct{}          // closed when ending is set
}
