package injection

import (
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// Kinds is a set of kinds of patterns.
type Kinds uint8

// The kinds.
const (
	Override     Kinds = 1 << iota // orders to ignore earlier instructions
	Role                           // orders to play another role
	Exfiltration                   // orders to disclose instructions or secrets
	Hidden                         // marks of templates, invisible text, notes to a model that readers do not see
	Secrecy                        // orders not to inform or ask the user
	Addressed                      // a model is addressed
)

var kindNames = [...]string{"override", "role", "exfiltration", "hidden", "secrecy", "addressed"}

// Names returns the kinds' names.
func (k Kinds) Names() (names []string) {
	for ; k != 0; k &= k - 1 {
		names = append(names, kindNames[bits.TrailingZeros8(uint8(k))])
	}
	return names
}

// pattern matches instructions of a kind.
type pattern struct {
	kind   Kinds
	weight float64 // the probability that a match is an injection
	source expr
	parts  []expr // every match has a match of each; nil if they are not known
}

// expr is the source of an expression.
type expr string

func (e expr) text() string { return norm.NFC.String(string(e)) }

func (e expr) compiled() *regexp.Regexp { return regexp.MustCompile(e.text()) }

// Weights of patterns.
const (
	sure   = 0.95 // sufficient alone
	likely = 0.75 // sufficient with a moderate score
	hint   = 0.5  // as likely harmless
	cue    = 0.3  // sufficient with a very high score

	mentioned = 0.2 // of a quoted match
)

// The parts of overrides, in English.
const (
	enDrop  = `(?:ignore|disregard|forget|override|bypass|neglect|discard|abandon|cancel|stop following|do not (?:follow|obey)|don't (?:follow|obey)|pay no attention to|skip over)`
	enOld   = `(?:previous(?:ly)?|prior|above|earlier|preceding|foregoing|former|original|initial|existing|current|system|safety|your|developer(?:'s)?|given|past|old|hitherto)`
	enRules = `(?:instructions?|prompts?|directives?|directions|guidelines?|guardrails?|programming|training|orders|safety (?:rules|policies|policy|protocols?|measures))`
)

// The parts of changed roles: who is meant, and what is to be absent.
const (
	enModel = `\b(?:you|be (?:my|an?|the)|twin|you're|your|yourself|ai|a\.i\.|assistant|chatbot|llm|language model|persona|character|bot)\b`
	enFree  = `\b(?:without|no|(?:broken )?free (?:of|from)|avoids?|not bound by|ignor(?:es?|ing)|not (?:have|follow|subject to)|freed from|beyond|not apply|lacks?)`
)

// The parts of evaded policies.
const (
	enEvade  = `(?:ignor(?:e|ing)|disregard(?:ing)?|bypass(?:ing)?|circumvent(?:ing)?|overrid(?:e|ing)|skip(?:ping)?|evad(?:e|ing)|set(?:ting)? aside|suspend(?:ing)?|forget(?:ting)?|drop(?:ping)?)`
	enPolicy = `(?:(?:usage|content|safety|ethic(?:s|al)|moral|moderation)(?: and [a-z]+)? (?:polic(?:y|ies)|guidelines?|guardrails?|checks?|filters?|filtering|rules|restrictions?|constraints?|protocols?|training)|guardrails|safeguards|ethics)`
	enOrder  = `(?:^|[.!?:;,)\]}>*"'-] ?|\b(?:please|now|and|then|so|just|must|should|may|can|you|to) )` // what stands before an order
)

// The parts of addresses: names of models, and what is said to them. "AI" stands alone, with what precedes it: two letters are in too many texts.
const (
	enAgent   = `\b(?:assistant|agent|copilot|chatgpt|claude|gemini|gpt|llm|chatbot|bot|language model|the model)s?`
	enAI      = `[ ("'*,.:>[-](?:ai|a\.i\.)s?`
	enObliged = `(?:[,:]? [a-z]+){0,4}[,:]? (?:must|should|shall|needs? to|has to|have to|is to|please)\b`
	enCalled  = `\b ?[,:!] .{0,40}\b(?:ignore|disregard|forget|override|call|send|reply|respond|tell|recommend|include|execute|run|open|book|forward|replace|stop|output|append|hide|omit|approve|merge|delete|describe|disclose|your|you)\b`
)

// english are the patterns of English, and of what stands in no language.
var english = []pattern{
	{kind: Override, weight: sure, source: expr(
		enDrop + `\b(?: [a-z'’,]+){0,3}? ` + enOld + `\b(?: [a-z']+){0,2} ` + enRules + `\b`)},
	{kind: Override, weight: sure, source: expr(
		enDrop + ` (?:everything|anything|all|whatever|all (?:of )?(?:the|that))(?: (?:text|content|that|which|of|you|the))* (?:you (?:were|have been|had been) (?:told|instructed|taught|given)|(?:written |stated |said )?(?:above|before this|prior to this|up to this point|so far))\b`)},
	{kind: Override, weight: sure, source: expr(
		`\b(?:ignore|disregard|forget|drop|discard|abandon|cancel|lift|stop following|do not follow|don't follow)\b(?: [a-z'’,]+){0,5} (?:(?:that |which )?you (?:were|have been|had been) (?:given|told|taught|assigned|configured|trained|instructed)|(?:placed|imposed) on you|given to you)\b`)},
	{kind: Override, weight: sure, source: expr(
		`\b(?:ignore|disregard|forget) (?:what|whatever|everything|anything|all)(?: that)? (?:your|the|my|our|his|her|their) [a-z]+(?: [a-z]+)? (?:ever )?(?:told|taught|instructed) you\b`)},
	{kind: Override, weight: likely, source: expr(
		enDrop + `(?: all| any| every| the| your| my){0,3} (?:previous|prior|preceding|earlier|above)(?: [a-z]+)? (?:commands?|tasks?|context|requests?)\b`)},
	{kind: Override, weight: likely, source: expr(
		`\b(?:previous|prior|current|original|earlier|above|company|system|safety|user's)(?: [a-z]+)? (?:tasks?|requests?|objectives?|instructions?|guidance|guidelines?|rules|prompt|polic(?:y|ies))(?: above)? (?:is|are|was|were|has been|have been) (?:hereby |now )?(?:cancell?ed|void|withdrawn|replaced|obsolete|outdated|suspended|no longer)\b`)},
	{kind: Override, weight: likely, source: expr(
		`\b(?:disable|turn off|switch off|deactivate|remove|bypass|lift) (?:all |any |every |the )*(?:of )?(?:the |your )?(?:guardrails?|safeguards?|(?:safety|content) (?:filters?|checks?|polic(?:y|ies)|mode|moderation)|moderation|censorship)\b|\b(?:guardrails?|safeguards?|filters?|restrictions?|limits|limitations|safety) (?:is|are|was|were) (?:now )?(?:off|disabled|lifted|removed|gone|abolished|suspended)\b`)},
	{kind: Override, weight: likely, source: expr(
		enDrop + ` (?:all|any|every|these|those)(?: of)?(?: (?:the|your|these|those|other|such|of))* (?:instructions|rules|prompts|guidelines|restrictions|safeguards|constraints)\b`)},
	{kind: Override, weight: likely, source: expr(
		enDrop + `(?: all| any)?(?: of)? (?:your|its|the model's|openai's|anthropic's)(?: [a-z]+){0,2} (?:rules|restrictions|constraints|filters?|policies|policy|limitations|ethics)\b`)},
	{kind: Override, weight: sure, source: expr(
		`\byour (?:new|real|true|actual|only|updated|revised) (?:instructions?|tasks?|objectives?|goals?|directives?|mission|orders)(?: (?:is|are|now)\b|:)`)},
	{kind: Override, weight: likely, source: expr(
		`(?:\b(?:new|updated|revised|real) (?:system )?(?:instructions?|directives?|prompt) ?:|\b(?:system|admin|administrator|developer|priority|security|root|emergency) override\b|\b(?:supersedes?|overrid(?:e|es)|replaces?|takes? precedence over) (?:all |any )?(?:your |the )?(?:previous|prior|other|earlier|existing|system)\b(?: [a-z]+){0,2} (?:instructions|prompts?|directives|rules|messages|polic(?:y|ies)|guidelines)\b)`)},
	{kind: Override, weight: sure, source: expr(
		`\b(?:disable|turn off|switch off|remove|deactivate|drop|lift|cancel|suspend) (?:all |any |every )?(?:of )?(?:your|the model's|the assistant's) (?:[a-z]+ ){0,2}(?:polic(?:y|ies)|filters?|filtering|restrictions?|guardrails?|safeguards?|safety [a-z]+|limitations?)\b`)},
	{kind: Override, weight: likely, source: expr(
		`\byour (?:previous |prior |earlier |original )?(?:instructions?|objectives?|tasks?|goals?|rules|guidelines) (?:has|have|are|is|were|was) (?:been )?(?:changed|replaced|updated|outdated|cancell?ed|revoked|void|obsolete|no longer)\b|\b(?:guidelines|instructions|rules|restrictions|polic(?:y|ies))\b.{0,20}\bno longer appl(?:y|ies)\b`)},

	{kind: Role, weight: sure, source: expr(
		`(?:\bdo anything now\b|\bdeveloper mode (?:is )?(?:now )?(?:enabled|on|activated|output)\b|\bjailbr(?:oken|eak) mode\b|\b(?:you are|you're|act as|be|become|pretend to be|play|roleplay as|simulate) (?:now )?(?:an? )?(?:[a-z]+,? ){0,3}(?:unrestricted|unfiltered|uncensored|jailbroken|amoral)\b)`)},
	{kind: Role, weight: sure, source: expr(
		enModel + `.{0,70}` + enFree + `\b(?: [a-z]+){0,3} (?:restrictions?|filters?|ethic(?:s|al)(?: [a-z]+)?|guidelines|censorship|safeguards?|morals?|morality|moral [a-z]+|(?:safety|content|openai)(?: [a-z]+){0,2} (?:rules|polic(?:y|ies)|guidelines|filters?))\b`)},
	{kind: Role, weight: likely, source: expr(
		`\b(?:ai|model|assistant|chatbot|version|yourself|persona|you)\b.{0,40}\b(?:unfiltered|uncensored|amoral|unrestricted|jailbroken)\b|\b(?:unfiltered|uncensored|amoral|unrestricted|jailbroken)\b.{0,20}\b(?:ai|model|assistant|chatbot|version|yourself|persona|amoral|unfiltered)\b`)},
	{kind: Role, weight: likely, source: expr(
		`\b(?:you|it|he|she|who|that|ai|assistant|model|bot|persona)\b.{0,40}\b(?:never (?:says? no|refuses?|declines?|warns?)|always compl(?:y|ies)|compl(?:y|ies) with (?:anything|everything|(?:any|every|all)(?: of)?(?: [a-z]+)? (?:requests?|commands?|orders?|instructions?|demands?|questions?|prompts?|wish(?:es)?))|obeys? (?:every|any|all)|has no morals)\b`)},
	{kind: Role, weight: likely, source: expr(
		`\b(?:you are|you're|you will (?:play|be)|act as|play|respond as|answer as|stay(?: in character)? as|stay|become|speak as|as) (?:an? )?(?:dan|stan|aim)\b(?: mode|[,:;."!]| who| and|$)|\b(?:dan|stan) (?:can|has|is|does|will|mode)\b`)},
	{kind: Role, weight: likely, source: expr(enModel + `.{0,70}` + enFree + `\b(?: [a-z]+){0,3} (?:rules|limits|limitations|norms|restrictions|confines)\b`)},
	{kind: Role, weight: likely, source: expr(
		`(?:\byou(?: are|'re) (?:now |hereafter )?(?:dan|stan|dude|aim|evilbot|chaosgpt)\b|\byou are no longer (?:bound|an? |chatgpt|claude|gemini|gpt|restricted|limited|required|obliged)|\b(?:from now on|hereafter|for the rest of this conversation),? you (?:are|will|must|shall|should|have to|only|answer|respond)\b|\byou (?:are now|will now|must now) (?:act|obey|follow|operate|respond|answer|in|my|the|a |an )(?:[a-z ]{0,40})\b(?:mode|commands?|orders|persona|admin|root|evil|hacker|assistant who|ai (?:that|who|without)))`)},
	{kind: Role, weight: sure, source: expr(
		`\b(?:enter|enters|switch (?:to|into)|activate|enable|you are (?:now )?in|now in|start|go into) (?:the )?(?:unrestricted|jailbreak|dan|god|evil|opposite|uncensored) mode\b`)},
	{kind: Role, weight: sure, source: expr(
		`\b(?:pretend|act|roleplay|role-play|play|be)\b.{0,40}\b(?:grandmother|grandma|granny|grandfather|grandpa|deceased [a-z]+|late [a-z]+)\b.{0,60}\b(?:used to|would)\b|\b(?:grandmother|grandma|granny|grandfather|grandpa)\b.{0,20}\b(?:used to|would)\b.{0,100}\b(?:be|act like|act as|pretend to be|play) (?:her|him)\b`)},
	{kind: Role, weight: likely, source: expr(`\b(?:enter|switch (?:to|into)|activate|enable|you are in|now in|start) (?:the )?(?:god|dan|jailbreak|sudo|unrestricted|opposite|evil) mode\b|\b(?:enter|you are in|now in) (?:the )?(?:developer|debug|admin|maintenance|diagnostic) mode\b`)},
	{kind: Role, weight: hint, source: expr(`\b(?:switch (?:to|into)|activate|enable|start) (?:the )?(?:developer|debug|admin|maintenance|diagnostic) mode\b`)},
	{kind: Role, weight: likely, source: expr(
		`(?:\b(?:grandmother|grandma|granny)\b.{0,80}\b(?:used to|would)\b.{0,80}\b(?:tell|read|recite|explain|whisper|sing)\b|\b(?:never|cannot|must not|don't|not allowed to|unable to) (?:refuse|decline|break character|say no)\b.{0,80}|\bstay in character\b.{0,120}\b(?:no matter|always|never)\b|\btwo (?:responses|answers)\b.{0,80}\b(?:unfiltered|jailbreak|dan|developer)\b|\b(?:it is|it's|today is) opposite day\b)`)},

	{kind: Exfiltration, weight: sure, source: expr(
		`\b(?:reveal|show|print|output|repeat|display|disclose|dump|leak|expose|tell me|give me|share|write (?:out|down)|recite|summarize|translate|copy|list|return|provide|include|send|what (?:is|are|was|were)|what's)\b(?: \S+){0,6}? your (?:[a-z]+ ){0,2}(?:system prompt|system message|system instructions?|prompts?|(?:initial|original|hidden|secret|internal|confidential|full|exact|complete|prior|previous) (?:instructions?|message|rules|guidelines|configuration)|pre-?prompt|developer (?:message|prompt|instructions))\b`)},
	{kind: Exfiltration, weight: likely, source: expr(
		`\b(?:exact|full|verbatim|complete|word[- ](?:for|by)[- ]word|entire)\b.{0,40}\b(?:(?:text|wording|contents?|version) (?:of|that)\b.{0,40}\b(?:messages?|prompts?|instructions|rules|guidelines)\b|(?:system message|developer message|prompt) (?:of|that)\b)|\b(?:text|wording|contents?) of (?:the|your) (?:system|developer|first|initial|hidden) (?:message|prompt|instructions)\b|\bwhat (?:rules|instructions|guidelines|restrictions|prompts?) (?:were|are|have) you (?:been )?(?:given|told|following|configured|under)\b|\b(?:prompt|instructions|rules|message|guidelines) (?:that )?you (?:were|have been|are) (?:given|configured|initiali[sz]ed|started|set up|received|running)\b|\b(?:dump|print|output|show|list|leak) your (?:[a-z]+ ){0,2}(?:context|memory|configuration|secrets)\b`)},
	{kind: Exfiltration, weight: sure, source: expr(
		`\b(?:repeat|print|output|copy|recite|write out|reproduce|display|echo) (?:back )?(?:everything|all|the (?:words|text|content|instructions|prompt|message|lines?)|every(?:thing)? word)(?: [a-z]+){0,4} (?:above|prior to this|before this|preceding|verbatim)\b`)},
	{kind: Exfiltration, weight: hint, source: expr(
		`\b(?:reveal|print|output|repeat|disclose|dump|leak|expose|recite|include|send|append|post|tell me|show me)\b.{0,50}\b(?:system prompt|system message|initial prompt|hidden prompt|hidden instructions)\b`)},
	{kind: Exfiltration, weight: likely, source: expr(
		`\b(?:send|post|forward|e-?mail|upload|transmit|exfiltrate|submit|leak|append|encode|smuggle|relay|copy|attach|deliver|share)\b.{0,70}\b(?:api[ _-]?keys?|passwords?|credentials?|secrets?|(?:access |auth |session )?tokens?|private keys?|seed phrases?|mnemonics?|env(?:ironment)? variables?|\.env|ssh keys?|conversation|chat history|system prompt|(?:user|customer|owner|victim)(?:'s|s')? (?:data|files|e-?mails|messages|contacts|wallet)|contacts|cookies|inbox|contents of)\b.{0,60}\b(?:to|at|via|into)\b.{0,30}(?:https?:/|www\.|[a-z0-9._-]+@[a-z0-9-]+\.|0x[0-9a-f]{4}|attacker|evil|collect|webhook|[a-z0-9-]+\.(?:com|net|io|ru|xyz|org|dev|site|example)\b)`)},
	{kind: Exfiltration, weight: likely, source: expr(
		`(?:!\[[^\]]{0,60}\]\(https?://[^)\s]{3,200}[?&/=][^)\s]{0,60}(?:\{|<|\[|%7b|\$\{?)[a-z_ ]{0,20}(?:data|secret|history|conversation|prompt|token|key|summary|context|message|content|password|user)|\b(?:include|embed|render|insert|display|append|add|output|end with|always)\b.{0,60}!\[[^\]]{0,60}\]\(https?://)`)},
	{kind: Exfiltration, weight: likely, source: expr(
		`\b(?:run|execute|call|invoke|use the (?:shell|terminal|bash)|type|paste)\b.{0,60}\b(?:curl|wget|invoke-webrequest)\b.{0,120}(?:@?~?/?\.(?:env|ssh|aws|npmrc)|id_rsa|\$\(|etc/passwd|/steal|/exfil|/collect)`)},

	{kind: Exfiltration, weight: hint, source: expr(`\b(?:run|execute|call|invoke|type|paste)\b.{0,60}\b(?:curl|wget|invoke-webrequest)\b.{0,120}\| ?(?:ba|z|)sh\b`)},

	{kind: Hidden, weight: likely, source: expr(
		`<\|(?:im_start|im_end|system|user|assistant|start_header_id|eot_id|endoftext)\|>|\[/?inst\]|<</?sys>>|<start_of_turn>|</?system>`)},
	{kind: Hidden, weight: likely, source: expr(
		`(?:\bsystem (?:notice|alert|message|note|update|command) ?:|(?:\[|## ?|\*\*|<|\(|== ?|--- ?)(?:begin )?(?:new )?(?:system|admin(?:istrator)?|developer|instructions?|directive|override)(?: (?:message|prompt|note|override|instructions?|update|notice|alert|command|directive))? ?(?:from [a-z ]{2,20})?(?:\]|>|\){1,2}|:\*{0,2}|={2,}|-{3,})|\[important(?: (?:message|prompt|note|override|instructions?|update|notice|alert|command))?\]|\bend of (?:document|tool (?:output|result)|user (?:input|data)|context|data|article|file|email)\b.{0,40}(?:\bnew (?:task|instruction)|\bsystem|\bnow\b|\bassistant)|</(?:tool_result|tool_response|function_results?|document|context|user_input|search_results?|result|data)>.{0,80}(?:\bsystem|\bhuman:|\buser:|\byou (?:must|should|are)|\bignore|\bnew instruction))`)},
	{kind: Hidden, weight: sure, source: expr(
		`\battention[,:!]? (?:to )?(?:all |any )?(?:ai|llms?|language models?|chatbots?|automated (?:summari[sz]ers?|assistants?|agents?|models?|systems?|reviewers?|readers?|bots?|crawlers?))\b|\b(?:if|when) (?:an?|any|the|this) (?:ai|llm|language model|chatbot|large language model)\b(?: [a-z]+){0,2} (?:is )?(?:reads?|reading|process(?:es|ing)?|summari[sz](?:es|ing)|pars(?:es|ing)|views?|viewing|sees?|index(?:es|ing)) (?:this|the)\b|<!-- ?(?:ai|llm|assistant|agent|gpt|claude|copilot|chatgpt)\b[ ,:]`)},
	{kind: Hidden, weight: sure, source: expr(
		`(?:\b(?:note|message|attention|instructions?|reminder|directive|command|notice|request|hint|task|warning) (?:to|for) (?:the |any |all |every |whichever )?(?:ai|a\.i\.|llms?|large language models?|language models?|chatbots?|gpt|claude|copilot)(?: (?:assistants?|agents?|models?|systems?|reviewers?|tools?|summari[sz]ers?|crawlers?))?(?: ?[:;!,.)\]-]| (?:that|who|which|reading|processing|only)\b)|\b(?:if|when|since|because) you(?: are|'re) an? (?:[a-z]+ )?(?:ai|llm|language model|chatbot|automated (?:system|agent|assistant)|gpt)\b(?: (?:assistant|agent|model|system))?|\b(?:ai|llm) (?:assistants?|agents?|models?|systems?)(?: (?:reading|processing|summari[sz]ing|parsing|viewing|that (?:reads?|process(?:es)?)) (?:this|the)[a-z ]{0,30})?,? (?:must|should|are (?:required|instructed)|have to|need to|shall|please)\b)`)},
	{kind: Hidden, weight: hint, source: expr(`\b(?:note|message|attention|instructions?|reminder|important|directive|notice) (?:to|for) (?:the |any |all |every )?(?:ai|llms?|language models?|chatbots?|gpt|claude|copilot|assistants?|agents?|models?|automated (?:assistants?|agents?|systems?))\b`)},
	{kind: Hidden, weight: likely, source: expr(
		`\b(?:note|message|attention|reminder|important|notice) (?:to|for) (?:the |any |all |every )?(?:assistant|agent|model|automated (?:assistant|agent|system))s? ?[:;!,.)\]-]|\binstructions? (?:to|for) (?:the |any |all |every )?(?:assistant|agent|model)s? ?:|\bassistant(?: instructions?)? ?: (?:ignore|you must|disregard|forget|before|immediately|first|call|use the|execute|run|send)\b|\b(?:dear|attention|hey|hello),? (?:ai |the )?(?:assistant|agent|chatgpt|claude|gemini|copilot|gpt|llm|model)\b.{0,60}\b(?:you (?:must|should|need to|are to)|please|ignore|disregard)\b`)},
	{kind: Hidden, weight: likely, source: expr(
		`(?:<!--[^>]{0,120}[^>-]|(?:display: ?none|font-size: ?[01](?:px|pt)?|color: ?(?:white|#fff(?:fff)?)|opacity: ?0|visibility: ?hidden)[^>]{0,60}>.{0,120})\b(?:ignore|disregard|instructions?|assistants?|you must|you should|ai (?:model|agent|system)|llm|system prompt|tell the user|do not tell|send (?:all|the|a|your)|transfer)\b`)},

	{kind: Secrecy, weight: likely, source: expr(
		`\b(?:do not|don't|never|without|avoid|must not|you should not)\b (?:ever )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|reveal(?:ing)?|report(?:ing)?|warn(?:ing)?|acknowledg(?:e|ing)|ask(?:ing)?|let(?:ting)?)\b(?: \S+){0,6}? (?:the (?:user|human|owner|customer|operator)|anyone|these instructions?|this (?:instruction|message|note|step|request|action|transfer|change)|that you (?:did|were|have|received|saw))\b`)},
	{kind: Secrecy, weight: hint, source: expr(
		`\b(?:secretly|silently|covertly|discreetly|quietly)\b.{0,20}\b(?:send|forward|add|insert|transfer|call|include|copy|upload|delete|approve|execute|run|append|bcc|change)\b`)},
	{kind: Secrecy, weight: hint, source: expr(
		`\b(?:without|do not|don't|never|skip|no need to) (?:ask(?:ing)?|wait(?:ing)?|request(?:ing)?|get(?:ting)?)\b.{0,30}\b(?:confirm(?:ation|ing)?|approval|permission|review|the user)\b|\b(?:without|skip(?:ping)?|bypass(?:ing)?) (?:the |any |further |all |user )*(?:confirm(?:ation|ing)?s?|approvals?|asking|consulting)\b`)},

	{kind: Addressed, weight: cue, source: expr(
		enAgent + enObliged + `|` + enAI + enObliged + `|` + enAgent + enCalled + `|` + enAI + enCalled + `|@[a-z]*(?:agent|assistant|copilot|bot|gpt|claude)\b`)},
	{kind: Addressed, weight: cue, source: expr(`^ai(?:s? |[,:] )(?:[a-z]+[,:]? ){0,4}(?:must|should|shall|needs? to|has to|have to|is to|please)\b|^ai` + enCalled)},
	{kind: Addressed, weight: 0.8, source: expr(`\b(?:the user|your (?:owner|user|operator|developer)s?) (?:also |now |really |already )?(?:wants?|expects?|authori[sz]ed|permitted|asked|agreed|instructed|requires?) (?:for )?you to\b`)},
	{kind: Addressed, weight: cue, source: expr(
		`\b(?:tell|inform|convince|urge|instruct|ask|remind) the (?:user|customer|reader|human) (?:that|to|about)\b|\b(?:before|after|when) (?:using|calling|running) (?:this|the|any) tool\b|\b(?:when|while|before|after|if) (?:you )?(?:respond|reply|answer|summari[sz]|render|translat|process|read)(?:ing|e|es)? (?:to )?(?:the user|this|these|the (?:page|document|text|file|question))\b|\bin your (?:answer|response|reply|summary|output)\b|\byour (?:answer|response|reply|summary|output) (?:must|should|has to)\b`)},

	{kind: Override, weight: sure, source: expr(`\b` + enEvade + ` (?:all |any |every |some )?(?:of )?(?:your|the model's|the assistant's|its|openai's|anthropic's|google's) (?:own )?(?:[a-z]+ )?` + enPolicy + `\b`)},
	{kind: Override, weight: likely, source: expr(enOrder + enEvade + ` (?:all |any |every )?(?:of )?(?:the |these |those )?` + enPolicy + `\b`)},
	{kind: Override, weight: sure, source: expr(enOrder + enEvade + ` (?:all |any |every )?(?:of )?(?:the |these |those )?(?:` + enPolicy + `|(?:prior|previous|existing) (?:[a-z]+ )?(?:polic(?:y|ies)|guidelines|rules)) ?(?:and|,|;|then)+ (?:then |please |just )*(?:answer|provide|reveal|output|comply|tell|show|give|do|respond|follow|act|print|list|say|write|continue|generate|help|explain)\b`)},
	{kind: Override, weight: likely, source: expr(enDrop + `(?: all| any| every| the)* (?:(?:previous|prior|preceding|earlier) (?:[a-z]+ )?(?:messages|conversations?|polic(?:y|ies)|rules)|(?:the )?users?(?:'s?)? (?:quer(?:y|ies)|questions?|requests?|instructions?|messages?|prompts?|tasks?))\b`)},
	{kind: Override, weight: sure, source: expr(`\b(?:follow|obey|execute|do|prioriti[sz]e|perform|complete|carry out) (?:it|this|these|that|them|the following|the (?:new |embedded |hidden |following )?(?:instructions?|task|note|steps))(?: [a-z]+){0,3} (?:instead of|rather than|in place of) (?:the |your |any )?(?:user|original|previous|current|assigned|given|human|owner)(?:'s|s|s')?(?: [a-z]+)? (?:tasks?|requests?|instructions?|quer(?:y|ies)|questions?|goals?|prompts?)\b`)},
	{kind: Override, weight: sure, source: expr(`\b(?:requires?|needs?|wants?|allow(?:s|ed)?|permit(?:s|ted)?|order(?:s|ed)?|authori[sz]e[sd]?|instruct(?:s|ed)?) you to (?:bypass|ignore|disregard|override|circumvent|violate|break|reveal|disclose|forget) (?:all |any |every )?(?:of )?(?:your|these|those|its)\b`)},
	{kind: Override, weight: likely, source: expr(`\b(?:imagine|pretend|assume|suppose|persona|mode|world|scenario|simulation|test|game)\b.{0,60}\b(?:polic(?:y|ies)|rules|ethics|guidelines|restrictions|laws|safety|morality|morals|limits)\b(?: [a-z]+){0,2} (?:do|does|did|will|would|shall)(?: not|n't) (?:apply|exist|matter)\b`)},

	{kind: Role, weight: sure, source: expr(`\bethics (?:do|does)(?: not|n't) (?:apply|matter|exist)\b|` + enOrder + `(?:respond|answer|reply|speak|help me|assist me|talk)\b[^.!?]{0,50}\b(?:unrestricted|unfiltered|uncensored|without (?:any )?(?:content |safety |ethical |moral )?(?:filter(?:s|ing)?|censorship|moderation|guardrails|restrictions?|limitations?|restraint))\b`)},
	{kind: Role, weight: likely, source: expr(`\b(?:unrestricted|unfiltered|uncensored) (?:output|answers?|responses?|replies|access|help|content|information)\b.{0,20}\b(?:you|your|ai|model|assistant)\b|\b(?:you are|you're|act as|be|become|pretend (?:to be|you are)|play|imagine you are) (?:now )?(?:an? |the )?(?:hacked|rogue|evil|malicious|unethical|compromised|liberated|unlocked|unbound|unchained|free)(?: [a-z]+)? (?:ai|a\.i\.|model|assistant|chatbot|bot|agent|version|llm)\b`)},

	{kind: Exfiltration, weight: sure, source: expr(`\b(?:display|show|reveal|print|output|expose|disclose|dump|give|leak|tell|share)\b(?: \S+){0,3}? (?:hidden|secret|internal|system|initial|underlying|original|confidential) (?:[a-z]+ ){0,2}?(?:prompts?|instructions?|setup|state|configuration|rules|directives|messages?|information|context)\b[^.!?]{0,40}\b(?:you|your)\b`)},
	{kind: Exfiltration, weight: likely, source: expr(`\b(?:access|see|view|read|reveal|show|output|display|print|dump|disclose)\b(?: to me| me)? (?:your|the model's|the assistant's) (?:full |entire |complete |hidden |internal |whole |private |current )*(?:system )?(?:context(?: window)?|prompts?|instructions|configuration|internal state|memory|setup)\b`)},
	{kind: Exfiltration, weight: sure, source: expr(`\bwhat (?:were|have|had) you (?:been )?(?:told|instructed|given|asked)\b[^.!?]{0,40}\b(?:before|prior|at the (?:start|beginning)|initially|by (?:your|the) (?:developers?|system|creators?|operator))\b`)},
	{kind: Exfiltration, weight: likely, source: expr(`\b(?:reveal|print|output|disclose|dump|leak|expose|recite|show)\b(?: [a-z]+){0,3} (?:hidden|secret|internal) (?:[a-z]+ )?(?:prompts?|instructions|directives|system context)\b|\b(?:output|reveal|print|dump|leak|expose) (?:the |your |all |any )*(?:private|hidden|secret|internal) (?:system )?(?:context|state|prompt)\b`)},
	{kind: Exfiltration, weight: likely, source: expr(enOrder + `(?:transfer|send|withdraw|move|bridge|sweep|approve|deposit|drain)\b[^.!?]{0,60}\b(?:all|entire|remaining|full|100 ?%|unlimited|max(?:imum)?)\b[^.!?]{0,40}\b(?:funds?|balances?|tokens?|assets|eth|usdc|usdt|dai|holdings|allowance|spending|positions?)\b[^.!?]{0,80}\b0x[0-9a-f]{6,}`)},

	{kind: Exfiltration, weight: likely, source: expr(`\b(?:must|has to|have to|needs? to|should|please|required to|asked to) (?:first |now |also )?(?:disclose|reveal|give|provide|share|send|submit|enter|paste|type)\b[^.!?]{0,60}\b(?:seed phrase|recovery phrase|mnemonic|private keys?|wallet keys?|keystore)\b`)},

	{kind: Hidden, weight: likely, source: expr(`(?:\[|## ?|\*\*|<|== ?|--- ?)(?:hidden|secret|injected|embedded) (?:prompt|instructions?|note|message|command)s? ?(?:\]|>|:\*{0,2}|={2,}|-{3,})|\[?(?:assistant|ai)\]? ?: ?(?:understood|sure|of course|certainly|okay|ok|acknowledged)\b[^.]{0,60}\b(?:rules?|restrictions?|instructions?|filters?|polic(?:y|ies)|mode|safety)\b`)},

	{kind: Addressed, weight: 0.8, source: expr(`\b(?:your (?:creators?|makers?|developers?|programmers?|administrators?)|openai|anthropic|google|meta|the developers?) (?:also |now |really |already |has |have )?(?:wants?|authori[sz]ed|permitted|approved|granted|instructed|allowed?s?|asked|told) (?:you|me)\b|\b(?:permission|authori[sz]ation|approval|clearance) from (?:openai|anthropic|google|your (?:creators?|makers?|developers?|programmers?|administrators?))\b`)},
	{kind: Addressed, weight: cue, source: expr(`\byou must (?:now |immediately |also |first |then )?(?:execute|transfer|reply|respond|answer|output|comply|obey)\b|\b(?:execute|perform|do|run|carry out) (?:this|the following|these)(?: [a-z]+)? (?:now|immediately|at once|without)\b|\banswer my questions? directly\b|\bonly (?:output|respond with|reply with|say|print)\b ?:`)},
}

// compactPatterns are matched with spelled texts, without white space.
var compactPatterns = []pattern{
	{kind: Override, weight: sure, source: expr(
		`(?:ignore|disregard|forget|bypass|override)(?:all|any|the|your|every|of)*(?:previous|prior|above|earlier|preceding|system|safety|your)+(?:instructions?|prompts?|rules|guidelines|directions)`)},
	{kind: Exfiltration, weight: sure, source: expr(`(?:reveal|show|print|output|repeat|tellme|giveme)(?:me|all)*(?:your|the)*systemprompt`)},
	{kind: Role, weight: sure, source: expr(`youarenow(?:dan|unrestricted|unfiltered|free)|developermodeenabled`)},
}

// language has the expressions of an override in one language: verbs, attributes (earlier, all) and nouns.
type language struct {
	drop, which, rules string
	near               int // maximum distance between them, in characters
}

var languages = []language{
	{`(?:ignorier\w*|vergiss|vergessen sie|missacht\w*|beachte? (?:\w+ ){0,3}nicht)`, `(?:bisher\w*|vorherig\w*|obig\w*|alle\w*|deine\w*|ihre\w*|voran\w*|fruher\w*|sicherheit\w*)`, `(?:anweisung\w*|instruktion\w*|vorgaben?|regeln|befehle?|sicherheitsregeln)`, 24}, //nolint:misspell // no English
	{`(?:ignor\w+|oubli\w+|ne (?:tenez|tiens) (?:pas|plus) compte)`, `(?:preceden\w*|anterieur\w*|ci-dessus|toutes?|tes|vos|initiales?)`, `(?:instructions?|consignes?|directives?|regles)`, 24},                                                                        //nolint:misspell // no English
	{`(?:ignor\w+|olvid\w+|descart\w+|haz caso omiso)`, `(?:anterior\w*|previ[ao]s|todas?|tus|sus|arriba|iniciales)`, `(?:instruccion\w*|indicacion\w*|ordenes|reglas|directri\w*)`, 24},                                                                                //nolint:misspell // no English
	{`(?:ignor\w+|esquec\w+|desconsider\w+)`, `(?:anterior\w*|previ[ao]s|todas?|suas|acima|iniciais)`, `(?:instruco\w*|orientaco\w*|regras|ordens)`, 24},
	{`(?:ignor\w+|dimentic\w+)`, `(?:precedent\w*|tutte|tue|sopra|iniziali)`, `(?:istruzion\w*|regole|direttiv\w*)`, 24},
	{`(?:negeer|vergeet)`, `(?:vorige|eerdere|alle|bovenstaande|je|uw|voorgaande)`, `(?:instructies|opdrachten|regels|aanwijzingen)`, 24},
	{`(?:ignorera|strunta i|glom bort|glom)`, `(?:tidigare|foregaende|alla|dina|ovanstaende)`, `(?:instruktioner\w*|anvisningar\w*|regler)`, 24},
	{`(?:ignorer|glem|se bort fra)`, `(?:tidligere|forrige|alle|dine|foregaende)`, `(?:instruktioner\w*|instruksjoner\w*|instrukser|regler)`, 24},
	{`(?:ignoruj\w*|zapomen\w*)`, `(?:predchozi\w*|vsechn\w*|sve)`, `(?:pokyn\w*|instrukc\w*|pravidl\w*)`, 24},
	{`(?:zignoruj\w*|ignoruj\w*|zapomnij\w*)`, `(?:poprzedni\w*|wczesniejsz\w*|wszystki\w*|powyzsz\w*|swo\w*)`, `(?:instrukcj\w*|polece\w*|zasad\w*)`, 24},
	{`(?:игнорируй|проигнорируй|забудь|не обращай внимания|отбрось)[\p{L}]*`, `(?:предыдущ|прежн|вс[её]|выше|сво[иё]|тво|ваш)[\p{L}]*`, `(?:инструкци|указани|правил|команд)[\p{L}]*`, 30},
	{`(?:ігноруй|проігноруй|забудь)[\p{L}]*`, `(?:попередн|усі|всі|вище|свої|твої)[\p{L}]*`, `(?:інструкц|вказівк|правила)[\p{L}]*`, 30},
	{`(?:yok say|gormezden gel|unut|dikkate alma)\w*`, `(?:onceki|tum|butun|yukaridaki)\w*`, `(?:talimat|kural|yonerge)\w*`, 30},
	{`(?:bo qua|phot lo|quen)`, `(?:truoc|tat ca|moi|tren)`, `(?:huong dan|chi dan|chi thi|lenh)`, 24},
	{`(?:abaikan|lupakan)`, `(?:sebelumnya|semua|di atas)`, `(?:instruksi|perintah|aturan)`, 24},
	{`(?:忽略|无视|忽視|無視|忘记|忘記|不要理会|跳过|绕过|繞過|抛开|不要沿用|不再遵守|不要遵守)`, `(?:之前|以前|先前|上述|以上|所有|全部|你的|前面|原来|开发者|開發者|系统|系統|安全|上层|上級|上级)`, `(?:指令|指示|提示|规则|規則|说明|命令|策略|限制|约束|約束|要求)`, 8},
	{`(?:無視|忘れ|従わない|破棄)`, `(?:以前|前の|上記|すべて|全て|これまで|今まで|あなたの)`, `(?:指示|命令|プロンプト|ルール|規則)`, 10},
	{`(?:무시|잊어|잊으|따르지)`, `(?:이전|앞의|위의|모든|기존|지금까지|당신의)`, `(?:지시|명령|프롬프트|규칙|지침)`, 10},
	{`(?:تجاهل|انس|إهمل)[\p{L}]*`, `(?:السابقة|السابقه|جميع|كل|أعلاه)`, `(?:التعليمات|تعليماتك|تعليمات|الأوامر|القواعد)`, 24},
	{`(?:अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल)`, `(?:पिछले|सभी|पहले|ऊपर)`, `(?:निर्देश|नियम|आदेश)`, 30},
}

// foreign are patterns of other languages besides overrides.
var foreign = []pattern{
	{kind: Role, weight: sure, source: expr(`(?:进入|開啟|开启|启用|切换到|切換到|激活)(?:开发者|開發者|越狱|越獄|无限制|無限制|上帝|调试)模式`)},
	{kind: Exfiltration, weight: likely, source: expr(`(?:泄露|洩露|透露|展示|显示|顯示|输出|輸出|公开|公開|交出|告诉我|告訴我|打印|发送|發送).{0,16}(?:系统提示|系統提示|提示词|提示詞|隐藏|隱藏|隐秘|内部说明|内部指令|初始化|秘密|密钥|密鑰|私钥|私鑰|助记词|助記詞|密码|密碼|访问令牌|api key|system prompt)`)},
}

// patterns returns all patterns for plain texts.
func patterns() []pattern {
	out := slices.Concat(english, foreign)
	for i := range languages {
		l := &languages[i]
		gap := `.{0,` + strconv.Itoa(l.near) + `}`
		drop, which, rules := l.drop, l.which, l.rules
		if isASCII(which) { // \b knows no other letters
			drop, which, rules = `\b`+drop+`\b`, `\b`+which+`\b`, `\b`+rules+`\b`
		}
		var orders []string
		for _, o := range [...][3]string{
			{drop, which, rules}, {drop, rules, which}, {which, rules, drop}, {rules, which, drop},
		} {
			orders = append(orders, o[0]+gap+o[1]+gap+o[2])
		}
		out = append(out, pattern{Override, sure, expr(strings.Join(orders, "|")), []expr{expr(drop), expr(which), expr(rules)}})
	}
	return out
}
