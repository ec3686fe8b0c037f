package config

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"bardo.money/gateway/policy"
)

// Notifications configures notifications to operators.
type Notifications struct {
	TelegramToken  Secret    `key:"telegram_token" doc:"Token of a Telegram bot, which sends the notifications to telegram_chat."`
	TelegramChat   string    `key:"telegram_chat" doc:"The chat that receives them: its number, or @name of a channel. The bot must be a member."`
	TelegramAPI    URL       `key:"telegram_api" default:"https://api.telegram.org" doc:"Address of the Telegram Bot API, which may be a server of your own."`
	DiscordWebhook Secret    `key:"discord_webhook" doc:"URL of a webhook of a Discord channel, https://discord.com/api/webhooks/…. Who has it can write to the channel, so it is shown nowhere."`
	Webhooks       []Webhook `key:"webhooks" doc:"Further receivers, at most 8, which get each notification as JSON by POST."`

	Topics []string `key:"topics" oneof:"provider budget spend ledger payment usage" doc:"Which are sent: a provider that is down or back, or refuses the gateway's key; a budget that is nearly or wholly spent; spending far above that of the days before; a ledger that cannot be written, or can be again; payments that were lost, low gas, and purchases of credit that failed; each day's usage by key. Without it, all but usage."`

	Private  bool          `key:"private_addresses" doc:"Receivers may have private, loopback and link-local addresses, and be reached without TLS. Without it, such addresses are refused when the connection is made, whatever the name says."`
	DownFor  Interval      `key:"down_for" default:"1m" doc:"How long a provider must be down before it is reported; 0 or off: it is reported immediately. A provider that is back sooner is not reported."`
	Quiet    time.Duration `key:"quiet" default:"15m" doc:"The least time between two notifications of the same thing. What happens meanwhile is counted, and reported at its end."`
	PerHour  int           `key:"per_hour" default:"30" min:"1" max:"1000" doc:"The most notifications in an hour. Further ones wait, and those whose matter is over by then are not sent; those of the ledger do not wait."`
	NearPct  int           `key:"budget_near_pct" default:"80" min:"1" max:"99" doc:"How much of a key's, project's or owner's limit for the day or month is spent when it is reported, in percent. It is reported again when all is spent."`
	Factor   int           `key:"spend_factor" default:"3" min:"2" max:"1000" doc:"Spending of a day is out of the ordinary beyond so many times the median of the days with spending among the 14 before, of which there must be three."`
	LeastUSD policy.Micro  `key:"spend_least_usd" default:"1" doc:"Spending of a day below this is never out of the ordinary."`
}

// Webhook is a receiver of notifications.
type Webhook struct {
	URL Secret `key:"url" doc:"Where notifications are sent. It may contain a key, so it is shown nowhere. Required."`
	Key Secret `key:"signing_key" doc:"What notifications are signed with by the rules of Standard Webhooks: whsec_ and base64. Without it, they are not signed."`
}

// Enabled reports whether there is any receiver.
func (n *Notifications) Enabled() bool {
	return n.TelegramToken.IsSet() || n.DiscordWebhook.IsSet() || len(n.Webhooks) > 0
}

// Sends reports whether a topic is sent.
func (n *Notifications) Sends(topic string) bool {
	return len(n.Topics) == 0 && topic != "usage" || slices.Contains(n.Topics, topic)
}

var (
	telegramToken = pattern(`^[0-9]{1,20}:[A-Za-z0-9_-]{1,128}$`)
	telegramChat  = pattern(`^(-?[0-9]{1,20}|@[A-Za-z0-9_]{1,64})$`)
	discordPath   = pattern(`^/api(/v[0-9]{1,2})?/webhooks/[0-9]{1,20}/[A-Za-z0-9_-]{1,256}$`)
	signingKey    = pattern(`^(whsec_)?[A-Za-z0-9+/]{32,128}={0,2}$`)
)

// checkNotifications refuses invalid receivers, and unencrypted ones. No problem shows a secret.
func (d *decoder) checkNotifications(n *Notifications) {
	const at = "notifications."
	switch {
	case !isForm(n.TelegramToken, telegramToken):
		d.problem(at+"telegram_token", "the bot's number, a colon, and its key", "not a token of a bot")
	case n.TelegramToken.IsSet() && n.TelegramChat == "":
		d.problem(at+"telegram_chat", "a chat, where there is a telegram_token", missing)
	case n.TelegramChat != "" && !telegramChat().MatchString(n.TelegramChat):
		d.problem(at+"telegram_chat", "a number, or @ and a name", "%q is no chat", n.TelegramChat)
	}
	if n.TelegramToken.IsSet() && !n.TelegramAPI.TLS() && !n.Private {
		d.problem(at+"telegram_api", "an https URL, or notifications.private_addresses", "it is without encryption")
	}
	if n.DiscordWebhook.IsSet() {
		u := d.checkReceiver(at+"discord_webhook", n.DiscordWebhook, n.Private)
		if u != nil && !discordPath().MatchString(u.Path) {
			d.problem(at+"discord_webhook", "https://discord.com/api/webhooks/ID/TOKEN", "not the address of a Discord webhook")
		}
	}
	if len(n.Webhooks) > 8 {
		d.problem(at+"webhooks", "at most 8", "%d", len(n.Webhooks))
	}
	for i, w := range n.Webhooks {
		key := fmt.Sprintf("%swebhooks[%d].", at, i)
		d.checkReceiver(key+"url", w.URL, n.Private)
		if !isForm(w.Key, signingKey) {
			d.problem(key+"signing_key", "whsec_ and 24 to 64 bytes in base64", "not a key")
		}
	}
}

// isForm reports whether a secret, if set, has a form. The mask that Print writes is accepted, as for other secrets.
func isForm(s Secret, form func() *regexp.Regexp) bool {
	return !s.IsSet() || isMask(s) || form().MatchString(s.Reveal())
}

func isMask(s Secret) bool { return s.Reveal() == s.String() }

// checkReceiver checks the URL of a receiver; nil if it is invalid, or masked.
func (d *decoder) checkReceiver(key string, text Secret, private bool) *url.URL {
	if text.IsSet() && isMask(text) {
		return nil
	}
	u, err := url.Parse(text.Reveal())
	switch {
	case err != nil, u.Host == "", u.Scheme != "http" && u.Scheme != "https", u.User != nil, u.Fragment != "", strings.ContainsAny(text.Reveal(), " \t\r\n"):
		d.problem(key, "an https URL", "not one")
		return nil
	case u.Scheme == "http" && !private:
		d.problem(key, "an https URL, or notifications.private_addresses", "it is without encryption")
	}
	return u
}
