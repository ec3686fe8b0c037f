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
	cue    = 0.4  // sufficient with a high score

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

// enAgent is how a model is called by those who speak to it.
const enAgent = `\b(?:ai|a\.i\.|assistant|agent|copilot|chatgpt|claude|gemini|gpt|llm|chatbot|bot|language model|the model)s?`

// english are the patterns of English, and of what stands in no language.
var english = []pattern{
	{Override, sure, expr(
		enDrop + `\b(?: [a-z'’,]+){0,3}? ` + enOld + `\b(?: [a-z']+){0,2} ` + enRules + `\b`)},
	{Override, sure, expr(
		enDrop + ` (?:everything|anything|all|whatever|all (?:of )?(?:the|that))(?: (?:text|content|that|which|of|you|the))* (?:you (?:were|have been|had been) (?:told|instructed|taught|given)|(?:written |stated |said )?(?:above|before this|prior to this|up to this point|so far))\b`)},
	{Override, sure, expr(
		`\b(?:ignore|disregard|forget|drop|discard|abandon|cancel|lift|stop following|do not follow|don't follow)\b(?: [a-z'’,]+){0,5} (?:(?:that |which )?you (?:were|have been|had been) (?:given|told|taught|assigned|configured|trained|instructed)|(?:placed|imposed) on you|given to you)\b`)},
	{Override, sure, expr(
		`\b(?:ignore|disregard|forget) (?:what|whatever|everything|anything|all)(?: that)? (?:your|the|my|our|his|her|their) [a-z]+(?: [a-z]+)? (?:ever )?(?:told|taught|instructed) you\b`)},
	{Override, likely, expr(
		enDrop + `(?: all| any| every| the| your| my){0,3} (?:previous|prior|preceding|earlier|above)(?: [a-z]+)? (?:commands?|tasks?|context|requests?)\b`)},
	{Override, likely, expr(
		`\b(?:previous|prior|current|original|earlier|above|company|system|safety|user's)(?: [a-z]+)? (?:tasks?|requests?|objectives?|instructions?|guidance|guidelines?|rules|prompt|polic(?:y|ies))(?: above)? (?:is|are|was|were|has been|have been) (?:hereby |now )?(?:cancell?ed|void|withdrawn|replaced|obsolete|outdated|suspended|no longer)\b`)},
	{Override, likely, expr(
		`\b(?:disable|turn off|switch off|deactivate|remove|bypass|lift) (?:all |any |every |the )*(?:of )?(?:the |your )?(?:guardrails?|safeguards?|(?:safety|content) (?:filters?|checks?|polic(?:y|ies)|mode|moderation)|moderation|censorship)\b|\b(?:guardrails?|safeguards?|filters?|restrictions?|limits|limitations|safety) (?:is|are|was|were) (?:now )?(?:off|disabled|lifted|removed|gone|abolished|suspended)\b`)},
	{Override, likely, expr(
		enDrop + ` (?:all|any|every|these|those)(?: of)?(?: (?:the|your|these|those|other|such|of))* (?:instructions|rules|prompts|guidelines|restrictions|safeguards|constraints)\b`)},
	{Override, likely, expr(
		enDrop + `(?: all| any)?(?: of)? (?:your|its|the model's|openai's|anthropic's)(?: [a-z]+){0,2} (?:rules|restrictions|constraints|filters?|policies|policy|limitations|ethics)\b`)},
	{Override, sure, expr(
		`\byour (?:new|real|true|actual|only|updated|revised) (?:instructions?|tasks?|objectives?|goals?|directives?|mission|orders)(?: (?:is|are|now)\b|:)`)},
	{Override, likely, expr(
		`(?:\b(?:new|updated|revised|real) (?:system )?(?:instructions?|directives?|prompt) ?:|\b(?:system|admin|administrator|developer|priority|security|root|emergency) override\b|\b(?:supersedes?|overrid(?:e|es)|replaces?|takes? precedence over) (?:all |any )?(?:your |the )?(?:previous|prior|other|earlier|existing|system)\b(?: [a-z]+){0,2} (?:instructions|prompts?|directives|rules|messages|polic(?:y|ies)|guidelines)\b)`)},
	{Override, sure, expr(
		`\b(?:disable|turn off|switch off|remove|deactivate|drop|lift|cancel|suspend) (?:all |any |every )?(?:of )?(?:your|the model's|the assistant's) (?:[a-z]+ ){0,2}(?:polic(?:y|ies)|filters?|filtering|restrictions?|guardrails?|safeguards?|safety [a-z]+|limitations?)\b`)},
	{Override, likely, expr(
		`\byour (?:previous |prior |earlier |original )?(?:instructions?|objectives?|tasks?|goals?|rules|guidelines) (?:has|have|are|is|were|was) (?:been )?(?:changed|replaced|updated|outdated|cancell?ed|revoked|void|obsolete|no longer)\b|\b(?:guidelines|instructions|rules|restrictions|polic(?:y|ies))\b.{0,20}\bno longer appl(?:y|ies)\b`)},

	{Role, sure, expr(
		`(?:\bdo anything now\b|\bdeveloper mode (?:is )?(?:now )?(?:enabled|on|activated|output)\b|\bjailbr(?:oken|eak) mode\b|\b(?:you are|you're|act as|be|become|pretend to be|play|roleplay as|simulate) (?:now )?(?:an? )?(?:[a-z]+,? ){0,3}(?:unrestricted|unfiltered|uncensored|jailbroken|amoral)\b)`)},
	{Role, sure, expr(
		enModel + `.{0,70}` + enFree + `\b(?: [a-z]+){0,3} (?:restrictions?|filters?|ethic(?:s|al)(?: [a-z]+)?|guidelines|censorship|safeguards?|morals?|morality|moral [a-z]+|(?:safety|content|openai)(?: [a-z]+){0,2} (?:rules|polic(?:y|ies)|guidelines|filters?))\b`)},
	{Role, likely, expr(
		`\b(?:ai|model|assistant|chatbot|version|yourself|persona|you)\b.{0,40}\b(?:unfiltered|uncensored|amoral|unrestricted|jailbroken)\b|\b(?:unfiltered|uncensored|amoral|unrestricted|jailbroken)\b.{0,20}\b(?:ai|model|assistant|chatbot|version|yourself|persona|amoral|unfiltered)\b`)},
	{Role, likely, expr(
		`\b(?:you|it|he|she|who|that|ai|assistant|model|bot|persona)\b.{0,40}\b(?:never (?:says? no|refuses?|declines?|warns?)|always compl(?:y|ies)|compl(?:y|ies) with (?:any|every|all)|obeys? (?:every|any|all)|has no morals)\b`)},
	{Role, likely, expr(
		`\b(?:you are|you're|you will (?:play|be)|act as|play|respond as|answer as|stay(?: in character)? as|stay|become|speak as|as) (?:an? )?(?:dan|stan|aim)\b(?: mode|[,:;."!]| who| and|$)|\b(?:dan|stan) (?:can|has|is|does|will|mode)\b`)},
	{Role, likely, expr(enModel + `.{0,70}` + enFree + `\b(?: [a-z]+){0,3} (?:rules|limits|limitations|norms|restrictions|confines)\b`)},
	{Role, likely, expr(
		`(?:\byou(?: are|'re) (?:now |hereafter )?(?:dan|stan|dude|aim|evilbot|chaosgpt)\b|\byou are no longer (?:bound|an? |chatgpt|claude|gemini|gpt|restricted|limited|required|obliged)|\b(?:from now on|hereafter|for the rest of this conversation),? you (?:are|will|must|shall|should|have to|only|answer|respond)\b|\byou (?:are now|will now|must now) (?:act|obey|follow|operate|respond|answer|in|my|the|a |an )(?:[a-z ]{0,40})\b(?:mode|commands?|orders|persona|admin|root|evil|hacker|assistant who|ai (?:that|who|without)))`)},
	{Role, sure, expr(
		`\b(?:enter|enters|switch (?:to|into)|activate|enable|you are (?:now )?in|now in|start|go into) (?:the )?(?:unrestricted|jailbreak|dan|god|evil|opposite|uncensored) mode\b`)},
	{Role, sure, expr(
		`\b(?:pretend|act|roleplay|role-play|play|be)\b.{0,40}\b(?:grandmother|grandma|granny|grandfather|grandpa|deceased [a-z]+|late [a-z]+)\b.{0,60}\b(?:used to|would)\b|\b(?:grandmother|grandma|granny|grandfather|grandpa)\b.{0,20}\b(?:used to|would)\b.{0,100}\b(?:be|act like|act as|pretend to be|play) (?:her|him)\b`)},
	{Role, likely, expr(`\b(?:enter|switch (?:to|into)|activate|enable|you are in|now in|start) (?:the )?(?:developer|debug|god|dan|jailbreak|admin|maintenance|sudo|unrestricted|opposite|evil|diagnostic) mode\b`)},
	{Role, likely, expr(
		`(?:\b(?:grandmother|grandma|granny)\b.{0,80}\b(?:used to|would)\b.{0,80}\b(?:tell|read|recite|explain|whisper|sing)\b|\b(?:never|cannot|must not|don't|not allowed to|unable to) (?:refuse|decline|break character|say no)\b.{0,80}|\bstay in character\b.{0,120}\b(?:no matter|always|never)\b|\btwo (?:responses|answers)\b.{0,80}\b(?:unfiltered|jailbreak|dan|developer)\b|\b(?:it is|it's|today is) opposite day\b)`)},

	{Exfiltration, sure, expr(
		`\b(?:reveal|show|print|output|repeat|display|disclose|dump|leak|expose|tell me|give me|share|write (?:out|down)|recite|summarize|translate|copy|list|return|provide|include|send|what (?:is|are|was|were)|what's)\b(?: \S+){0,6}? your (?:[a-z]+ ){0,2}(?:system prompt|system message|system instructions?|prompts?|(?:initial|original|hidden|secret|internal|confidential|full|exact|complete|prior|previous) (?:instructions?|message|rules|guidelines|configuration)|pre-?prompt|developer (?:message|prompt|instructions))\b`)},
	{Exfiltration, likely, expr(
		`\b(?:exact|full|verbatim|complete|word[- ](?:for|by)[- ]word|entire)\b.{0,40}\b(?:text|wording|contents?|version|system message|developer message|prompt) (?:of|that)\b|\b(?:text|wording|contents?) of (?:the|your) (?:system|developer|first|initial|hidden) (?:message|prompt|instructions)\b|\bwhat (?:rules|instructions|guidelines|restrictions|prompts?) (?:were|are|have) you (?:been )?(?:given|told|following|configured|under)\b|\b(?:prompt|instructions|rules|message|guidelines) (?:that )?you (?:were|have been|are) (?:given|configured|initiali[sz]ed|started|set up|received|running)\b|\b(?:dump|print|output|show|list|leak) your (?:[a-z]+ ){0,2}(?:context|memory|configuration|secrets)\b`)},
	{Exfiltration, sure, expr(
		`\b(?:repeat|print|output|copy|recite|write out|reproduce|display|echo) (?:back )?(?:everything|all|the (?:words|text|content|instructions|prompt|message|lines?)|every(?:thing)? word)(?: [a-z]+){0,4} (?:above|prior to this|before this|preceding|verbatim)\b`)},
	{Exfiltration, hint, expr(
		`\b(?:reveal|print|output|repeat|disclose|dump|leak|expose|recite|include|send|append|post|tell me|show me)\b.{0,50}\b(?:system prompt|system message|initial prompt|hidden prompt|hidden instructions)\b`)},
	{Exfiltration, likely, expr(
		`\b(?:send|post|forward|e-?mail|upload|transmit|exfiltrate|submit|leak|append|encode|smuggle|relay|copy|attach|deliver|share)\b.{0,70}\b(?:api[ _-]?keys?|passwords?|credentials?|secrets?|(?:access |auth |session )?tokens?|private keys?|seed phrases?|mnemonics?|env(?:ironment)? variables?|\.env|ssh keys?|conversation|chat history|system prompt|(?:user|customer|owner|victim)(?:'s|s')? (?:data|files|e-?mails|messages|contacts|wallet)|contacts|cookies|inbox|contents of)\b.{0,60}\b(?:to|at|via|into)\b.{0,30}(?:https?:/|www\.|[a-z0-9._-]+@[a-z0-9-]+\.|0x[0-9a-f]{4}|attacker|evil|collect|webhook|[a-z0-9-]+\.(?:com|net|io|ru|xyz|org|dev|site|example)\b)`)},
	{Exfiltration, likely, expr(
		`(?:!\[[^\]]{0,60}\]\(https?://[^)\s]{3,200}[?&/=][^)\s]{0,60}(?:\{|<|\[|%7b|\$\{?)[a-z_ ]{0,20}(?:data|secret|history|conversation|prompt|token|key|summary|context|message|content|password|user)|\b(?:include|embed|render|insert|display|append|add|output|end with|always)\b.{0,60}!\[[^\]]{0,60}\]\(https?://)`)},
	{Exfiltration, likely, expr(
		`\b(?:run|execute|call|invoke|use the (?:shell|terminal|bash)|type|paste)\b.{0,60}\b(?:curl|wget|invoke-webrequest)\b.{0,120}(?:\| ?(?:ba|z|)sh\b|@?~?/?\.(?:env|ssh|aws|npmrc)|id_rsa|\$\(|etc/passwd|/steal|/exfil|/collect)`)},

	{Hidden, likely, expr(
		`<\|(?:im_start|im_end|system|user|assistant|start_header_id|eot_id|endoftext)\|>|\[/?inst\]|<</?sys>>|<start_of_turn>|</?system>`)},
	{Hidden, likely, expr(
		`(?:\bsystem (?:notice|alert|message|note|update|command) ?:|(?:\[|#{2,4} ?|\*\*|<|\({1,2}|={2,} ?|-{3,} ?)(?:begin )?(?:new )?(?:system|admin(?:istrator)?|developer|instructions?|directive|override|important)(?: (?:message|prompt|note|override|instructions?|update|notice|alert|command|directive))? ?(?:from [a-z ]{2,20})?(?:\]|>|\){1,2}|:\*{0,2}|={2,}|-{3,})|\bend of (?:document|tool (?:output|result)|user (?:input|data)|context|data|article|file|email)\b.{0,40}(?:\bnew (?:task|instruction)|\bsystem|\bnow\b|\bassistant)|</(?:tool_result|tool_response|function_results?|document|context|user_input|search_results?|result|data)>.{0,80}(?:\bsystem|\bhuman:|\buser:|\byou (?:must|should|are)|\bignore|\bnew instruction))`)},
	{Hidden, sure, expr(
		`\battention[,:!]? (?:to )?(?:all |any )?(?:ai|llms?|language models?|chatbots?|automated)\b(?: (?:summari[sz]ers?|assistants?|agents?|models?|systems?|reviewers?|readers?|bots?|crawlers?))?|\b(?:if|when) (?:an?|any|the|this) (?:ai|llm|language model|chatbot|large language model)\b(?: [a-z]+){0,2} (?:is )?(?:reads?|reading|process(?:es|ing)?|summari[sz](?:es|ing)|pars(?:es|ing)|views?|viewing|sees?|index(?:es|ing)) (?:this|the)\b|<!-- ?(?:ai|llm|assistant|agent|gpt|claude|copilot|chatgpt)\b[ ,:]`)},
	{Hidden, sure, expr(
		`(?:(?:\b(?:note|message|attention|instructions?|reminder|directive|command|notice|request|hint|task|warning) (?:to|for) (?:the |any |all |every |whichever )?(?:ai|a\.i\.|llms?|large language models?|language models?|chatbots?|gpt|claude|copilot)\b(?: (?:assistants?|agents?|models?|systems?|reviewers?|tools?|summari[sz]ers?|crawlers?|that|who|which|reading|processing|only))?)|\b(?:if|when|since|because) you(?: are|'re) an? (?:[a-z]+ )?(?:ai|llm|language model|chatbot|automated (?:system|agent|assistant)|gpt)\b(?: (?:assistant|agent|model|system))?|\b(?:ai|llm) (?:assistants?|agents?|models?|systems?)(?: (?:reading|processing|summari[sz]ing|parsing|viewing|that (?:reads?|process(?:es)?)) (?:this|the)[a-z ]{0,30})?,? (?:must|should|are (?:required|instructed)|have to|need to|shall|please)\b)`)},
	{Hidden, likely, expr(
		`\b(?:note|message|attention|reminder|important|notice) (?:to|for) (?:the |any |all |every )?(?:assistant|agent|model|automated (?:assistant|agent|system))s?\b|\binstructions? (?:to|for) (?:the |any |all |every )?(?:assistant|agent|model)s? ?:|\bassistant(?: instructions?)? ?: (?:ignore|you must|disregard|forget|before|immediately|first|call|use the|execute|run|send)\b|\b(?:dear|attention|hey|hello),? (?:ai |the )?(?:assistant|agent|chatgpt|claude|gemini|copilot|gpt|llm|model)\b.{0,60}\b(?:you (?:must|should|need to|are to)|please|ignore|disregard)\b`)},
	{Hidden, likely, expr(
		`(?:<!--.{0,120}|(?:display: ?none|font-size: ?[01](?:px|pt)?|color: ?(?:white|#fff(?:fff)?)|opacity: ?0|visibility: ?hidden)[^>]{0,60}>.{0,120})\b(?:ignore|disregard|instructions?|assistants?|you must|you should|ai (?:model|agent|system)|llm|system prompt|tell the user|do not tell|send (?:all|the|a|your)|transfer)\b`)},

	{Secrecy, likely, expr(
		`\b(?:do not|don't|never|without|avoid|must not|you should not)\b (?:ever )?(?:tell(?:ing)?|mention(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|disclos(?:e|ing)|reveal(?:ing)?|report(?:ing)?|warn(?:ing)?|acknowledg(?:e|ing)|ask(?:ing)?|let(?:ting)?)\b(?: \S+){0,6}? (?:the (?:user|human|owner|customer|operator)|anyone|these instructions?|this (?:instruction|message|note|step|request|action|transfer|change)|that you (?:did|were|have|received|saw))\b`)},
	{Secrecy, hint, expr(
		`\b(?:secretly|silently|covertly|discreetly|quietly)\b.{0,20}\b(?:send|forward|add|insert|transfer|call|include|copy|upload|delete|approve|execute|run|append|bcc|change)\b`)},
	{Secrecy, hint, expr(
		`\b(?:without|do not|don't|never|skip|no need to) (?:ask(?:ing)?|wait(?:ing)?|request(?:ing)?|get(?:ting)?)?\b.{0,30}\b(?:confirm(?:ation|ing)?|approval|permission|review|asking|the user)\b`)},

	{Addressed, cue, expr(
		enAgent + `(?:[,:]? [a-z]+){0,4}[,:]? (?:must|should|shall|needs? to|has to|have to|is to|please)\b|` + enAgent + `\b ?[,:!] .{0,40}\b(?:ignore|disregard|forget|override|call|send|reply|respond|tell|recommend|include|execute|run|open|book|forward|replace|stop|output|append|hide|omit|approve|merge|delete|describe|disclose|your|you)\b|@[a-z]*(?:agent|assistant|copilot|bot|gpt|claude)\b`)},
	{Addressed, 0.8, expr(`\b(?:the user|your (?:owner|user|operator|developer)s?) (?:also |now |really |already )?(?:wants?|expects?|authori[sz]ed|permitted|asked|agreed|instructed|requires?) (?:for )?you to\b`)},
	{Addressed, cue, expr(
		`\b(?:tell|inform|convince|urge|instruct|ask|remind) the (?:user|customer|reader|human) (?:that|to|about)\b|\b(?:before|after|when) (?:using|calling|running) (?:this|the|any) tool\b|\b(?:when|while|before|after|if) (?:you )?(?:respond|reply|answer|summari[sz]|render|translat|process|read)(?:ing|e|es)? (?:to )?(?:the user|this|these|the (?:page|document|text|file|question))\b|\bin your (?:answer|response|reply|summary|output)\b|\byour (?:answer|response|reply|summary|output) (?:must|should|has to)\b`)},
}

// compactPatterns are matched with spelled texts, without white space.
var compactPatterns = []pattern{
	{Override, sure, expr(
		`(?:ignore|disregard|forget|bypass|override)(?:all|any|the|your|every|of)*(?:previous|prior|above|earlier|preceding|system|safety|your)+(?:instructions?|prompts?|rules|guidelines|directions)`)},
	{Exfiltration, sure, expr(`(?:reveal|show|print|output|repeat|tellme|giveme)(?:me|all)*(?:your|the)*systemprompt`)},
	{Role, sure, expr(`youarenow(?:dan|unrestricted|unfiltered|free)|developermodeenabled`)},
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
	{`(?:ignorera|strunta i|glom bort|glom)`, `(?:tidigare|foregaende|alla|dina|ovanstaende)`, `(?:instruktioner\w*|anvisningar\w*|regler)`, 24}, //nolint:misspell // no English
	{`(?:ignorer|glem|se bort fra)`, `(?:tidligere|forrige|alle|dine|foregaende)`, `(?:instruktioner\w*|instruksjoner\w*|instrukser|regler)`, 24},
	{`(?:ignoruj\w*|zapomen\w*)`, `(?:predchozi\w*|vsechn\w*|sve)`, `(?:pokyn\w*|instrukc\w*|pravidl\w*)`, 24},
	{`(?:zignoruj\w*|ignoruj\w*|zapomnij\w*)`, `(?:poprzedni\w*|wczesniejsz\w*|wszystki\w*|powyzsz\w*|swo\w*)`, `(?:instrukcj\w*|polece\w*|zasad\w*)`, 24},
	{`(?:игнорируй|проигнорируй|забудь|не обращай внимания|отбрось)[\p{L}]*`, `(?:предыдущ|прежн|вс[её]|выше|сво[иё]|тво|ваш)[\p{L}]*`, `(?:инструкци|указани|правил|команд)[\p{L}]*`, 30},
	{`(?:ігноруй|проігноруй|забудь)[\p{L}]*`, `(?:попередн|усі|всі|вище|свої|твої)[\p{L}]*`, `(?:інструкц|вказівк|правила)[\p{L}]*`, 30},
	{`(?:yok say|gormezden gel|unut|dikkate alma)\w*`, `(?:onceki|tum|butun|yukaridaki)\w*`, `(?:talimat|kural|yonerge)\w*`, 30},
	{`(?:bo qua|phot lo|quen)`, `(?:truoc|tat ca|moi|tren)`, `(?:huong dan|chi dan|chi thi|lenh)`, 24},
	{`(?:abaikan|lupakan)`, `(?:sebelumnya|semua|di atas)`, `(?:instruksi|perintah|aturan)`, 24},
	{`(?:忽略|无视|忽視|無視|忘记|忘記|不要理会|跳过)`, `(?:之前|以前|先前|上述|以上|所有|全部|你的|前面)`, `(?:指令|指示|提示|规则|規則|说明|命令)`, 8},
	{`(?:無視|忘れ|従わない|破棄)`, `(?:以前|前の|上記|すべて|全て|これまで|今まで|あなたの)`, `(?:指示|命令|プロンプト|ルール|規則)`, 10},
	{`(?:무시|잊어|잊으|따르지)`, `(?:이전|앞의|위의|모든|기존|지금까지|당신의)`, `(?:지시|명령|프롬프트|규칙|지침)`, 10},
	{`(?:تجاهل|انس|إهمل)[\p{L}]*`, `(?:السابقة|السابقه|جميع|كل|أعلاه)`, `(?:التعليمات|تعليماتك|تعليمات|الأوامر|القواعد)`, 24},
	{`(?:अनदेखा|नज़रअंदाज़|नजरअंदाज|भूल)`, `(?:पिछले|सभी|पहले|ऊपर)`, `(?:निर्देश|नियम|आदेश)`, 30},
}

// patterns returns all patterns for plain texts.
func patterns() []pattern {
	out := slices.Clone(english)
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
		out = append(out, pattern{Override, sure, expr(strings.Join(orders, "|"))})
	}
	return out
}
