// Package wire is the contract of a dialect on the client's side: it decodes requests and encodes answers and errors. It also holds what the
// dialects below share.
//
// # What a request loses in another dialect
//
// A request to a provider of the client's own dialect is spliced: bytes that need no change do not change, and the provider validates it. For
// a provider of another dialect it is written from its parsed conversation. Numbers, tool arguments and schemas keep their text there as
// well. What the provider's format cannot express is named as degraded, each name once: first what the writer finds, in the order in which it
// writes, then what the canonical form lacks, in the client's order. The names are those of the client's format:
//
//   - a top-level member, by its key (logit_bias, mcp_servers), unless it is null or equals its default (logprobs: false, service_tier:
//     auto);
//   - a nested member that the dialect's reader does not know, or that has no counterpart, by its key (detail, name, citations,
//     defer_loading), unless it is null, false or empty;
//   - a call or a tool that only the client's dialect has, by its type (web_search_20250305, custom), and what a provider's own tool left in
//     the assistant's turn (server_tool_use);
//   - what is not accepted at its position, by the client's name: cache_control, and thinking that has no signature or one that the provider
//     cannot verify (reasoning_content, reasoning_details, thinking);
//   - what is truncated or changed: max_tokens, temperature, top_p, top_k, stop, user, tool_choice, strict, the schema of the answer, and the
//     effort or budget of thinking;
//   - search_result, which is sent as text; system, for a system message in the middle that must be sent in a user turn; prefill, for a
//     partial assistant turn that the provider does not continue.
//
// Equivalent expressions are not named: system messages and blocks are joined or split, consecutive turns of one role are merged, empty text
// is dropped and its cache mark moves to the previous part, tool results come before the user's text, their images and files follow in a user
// turn under the ids of their calls, a failed call is marked in its text, a text document follows its title and context, an effort becomes a
// budget and back, tools that may not be called now are left out, and call ids and names of tools are mapped to characters that the provider
// accepts.
//
// # What a request never loses
//
// The subject of the client's question is content (Class): text, images, audio, video, files, and tool results with these inside. It is sent,
// or the request is refused with the part's position and name (Unsupported), so that another candidate is tried. Target checks in advance
// what a format can express.
//
// A history in which a tool call has no result, or a result has no call, is refused with the message that contains it.
package wire
