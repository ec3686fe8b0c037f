// Package wire is the contract of a dialect on the client's side: reading a request, writing an answer or an error.
//
// # What a request loses in another dialect
//
// A request to a provider of the client's own dialect is spliced: what need not change does not, byte by byte, and the
// provider judges it. To a provider of another dialect it is written anew from its conversation. Numbers, the arguments
// of tools and schemas keep their text there, too. What the provider's format cannot say is named, each name once: first
// what the writer finds, in the order of what it writes, then what the canonical form does not carry, in the client's
// order. The names are the client's own words:
//
//   - a member at the top, by its key (logit_bias, mcp_servers), unless it is null or says what its absence means
//     (logprobs: false, service_tier: auto);
//   - a member further in that the dialect's reader does not know, or that has no counterpart, by its own key (detail,
//     name, citations, defer_loading), unless it is null, false or empty;
//   - a call or a tool that only the client's dialect has, by its type (web_search_20250305, custom), and what a
//     provider's own tool left in the model's turn (server_tool_use);
//   - what cannot stand where it does, by the client's word for it: cache_control, and thinking
//     that nobody signed or that the provider could not check (reasoning_content, reasoning_details, thinking);
//   - what is cut or changed: max_tokens, temperature, top_p, top_k, stop, user, tool_choice, strict, the schema of the
//     answer, and the effort or budget of thinking;
//   - search_result, which is told as text; system, for a system message in the middle that has to stand in a turn of the
//     user; prefill, for an answer that was begun for the model and that begins anew.
//
// Not named is what the other format says in its own way: system messages and blocks are joined or kept apart, turns of
// one side are merged, empty text is left out and its cache mark moves to the part before, the results of tools come
// before what the user says, their images and files follow in a turn of the user under the ids of their calls, a failed
// call is told in words, text of
// a document stands under its title and context, an effort is a budget and back, and ids of calls get letters that the
// provider takes.
//
// # What a request never loses
//
// What the client asks about, text, images, sound, video, files and the results of tools with these inside, is content
// (Class): it is carried, or the request is refused there by the part's place and name (Unsupported), so that another
// candidate is tried. Target says beforehand what a format takes.
//
// A history in which a tool call has no result, or a result no call, is refused by the message that holds it.
package wire
