package spec

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseUpdate builds the update that a publication's form describes. The error is a *Problem: 413 for
// a value over a limit, 400 for everything else; its text names the field and the limit. The first of
// several single-valued fields counts (PUB-21) and unknown fields are ignored (PUB-20). Whether a topic
// is reserved depends on the hub's URL and the token: see Namespace. ID is empty when the hub is to make
// one. The update shares no memory with the form.
// Source: classic and draft-08 §Publication; PUB-04, PUB-06, PUB-10 … PUB-21, LIM-02 … LIM-04.
func ParseUpdate(f Form, l Limits) (*Update, error) {
	l = l.WithDefaults()
	if _, old := f.First(FieldTarget); old {
		return nil, BadRequest("target_field",
			"the field %q belongs to hubs before 0.10: this update would reach everybody; use private and topic selectors", FieldTarget)
	}
	u := &Update{}
	var err error
	if u.Topics, err = parseTopics(f.All(FieldTopic), l); err != nil {
		return nil, err
	}
	_, u.Private = f.First(FieldPrivate)
	if u.ID, err = parseID(f, l); err != nil {
		return nil, err
	}
	if u.Type, err = parseType(f, l); err != nil {
		return nil, err
	}
	if u.Retry, err = parseRetry(f); err != nil {
		return nil, err
	}
	data, _ := f.First(FieldData)
	if !utf8.ValidString(data) {
		return nil, BadRequest("invalid_data", "the field %q is not valid UTF-8", FieldData)
	}
	u.Data = strings.Clone(data)
	return u, nil
}

func parseTopics(topics []string, l Limits) ([]string, error) {
	if len(topics) == 0 {
		return nil, BadRequest("missing_topic", "the field %q is missing", FieldTopic)
	}
	if len(topics) > l.Topics {
		return nil, TooLarge("too_many_topics", "%d fields %q, at most %d are allowed", len(topics), FieldTopic, l.Topics)
	}
	for i, t := range topics {
		switch {
		case t == "":
			return nil, BadRequest("invalid_topic", "a field %q is empty", FieldTopic)
		case len(t) > l.TopicBytes:
			return nil, TooLarge("topic_too_long", "a field %q has %d bytes, at most %d are allowed", FieldTopic, len(t), l.TopicBytes)
		case t == Wildcard:
			return nil, BadRequest("invalid_topic", "the field %q must not be %q, which selects every topic", FieldTopic, Wildcard)
		case !ValidText(t):
			return nil, BadRequest("invalid_topic", textRule, FieldTopic)
		}
		topics[i] = strings.Clone(t)
	}
	return topics, nil
}

const textRule = "the field %q must be valid UTF-8 without control and format characters"

func parseID(f Form, l Limits) (string, error) {
	id, _ := f.First(FieldID)
	switch {
	case len(id) > l.IDBytes:
		return "", TooLarge("id_too_long", "the field %q has %d bytes, at most %d are allowed", FieldID, len(id), l.IDBytes)
	case !ValidText(id):
		return "", BadRequest("invalid_id", textRule, FieldID)
	case strings.HasPrefix(id, "#"):
		return "", BadRequest("invalid_id", "the field %q must not start with #", FieldID)
	case id == Earliest:
		return "", BadRequest("invalid_id", "the field %q must not be the reserved value %q", FieldID, Earliest)
	case strings.Trim(id, " ") != id:
		return "", BadRequest("invalid_id", "the field %q must not start or end with a space, which a header field would lose", FieldID)
	}
	return strings.Clone(id), nil
}

func parseType(f Form, l Limits) (string, error) {
	t, _ := f.First(FieldType)
	switch {
	case len(t) > l.IDBytes:
		return "", TooLarge("type_too_long", "the field %q has %d bytes, at most %d are allowed", FieldType, len(t), l.IDBytes)
	case !ValidText(t):
		return "", BadRequest("invalid_type", textRule, FieldType)
	case t == TypeMercure:
		return "", BadRequest("invalid_type", "the field %q must not be %q, which is kept for the hub's own events", FieldType, TypeMercure)
	}
	return strings.Clone(t), nil
}

func parseRetry(f Form) (uint64, error) {
	s, _ := f.First(FieldRetry)
	if s == "" {
		return 0, nil
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, BadRequest("invalid_retry", "the field %q must consist of the digits 0 to 9", FieldRetry)
		}
	}
	ms, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, BadRequest("invalid_retry", "the field %q does not fit in 64 bits", FieldRetry)
	}
	return ms, nil
}
