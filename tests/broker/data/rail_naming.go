// Prints the golden cases of rail_naming.json: what Go's regexp does with templates, expressions and names.
//
//	go run rail_naming.go > rail_naming.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strings"
)

type golden struct {
	Regex    string  `json:"regex"`
	Template string  `json:"template"`
	Input    string  `json:"input"`
	Expected *string `json:"expected"` // null: no match
}

func main() {
	expressions := map[string][]string{
		`^eth_r([0-9]+)_p[0-9]+$`:                 {"eth_r3_p0", "eth_r12_p1", "eth_r_p0", "xeth_r1_p0", "eth_r1_p0\n"},
		`r(?P<rail>[0-9]+)(?:p(?P<port>[0-9]+))?`: {"er7p2", "er7", "ib0"},
		`(?i)^(?<plane>[a-z]+)(\d)(x)?`:           {"ROCE5", "roce5x", "5"},
		`(e)(t)(h)(_)(r)(a)(i)(l)(\d)(0)(1)(.*)$`: {"eth_rail901zz"},
		`^(.*)$`:                    {"", "en$p", "größe1", "a${1}b"},
		`(?P<_a1>.)(?P<B>.)?$`:      {"é", "éz"},
		`(a|ab)(c|bcd)(d*)`:         {"abcd", "xxabcdd"},
		`x*`:                        {"axx", ""},
		`(?s)^(?P<1>a)(b)(?P<07>c)`: {"abc"},
		`\bnet(\d+)\b|^ib(\d+)`:     {"a net42 b", "ib8", "net42_"},
		`[[:alpha:]]+\pL(\pN)`:      {"räd7", "ra²"},
		`^(?U)(e+)(e*)$`:            {"eeee"},
	}
	templates := []string{
		"rail$1", "rail${1}", "$1x", "${1}x", "$10", "${1}0", "$$1", "$$$1", "$", "a$", "$ ", "$-1", "${", "${}", "${1",
		"${1 }", "$rail", "${rail}", "${rail}-${port}", "$port", "$plane-$2$3", "$0", "${0}", "$00", "$01", "${07}", "$7",
		"$2", "$3", "$99999999", "$999999999", "$9999999999", "$_a1", "${_a1}$B", "$B_", "plane", "$é", "x$1é", "x${1}é",
		"$1²", "$1٣", "$1$2$3$4$5$6$7$8$9${10}${11}${12}", "$${1}", "$1$", "${1}$$", "$1.$2", "$1-$2", "{$1}", "$ {1}", "",
	}
	cases := []golden{}
	number := 0
	for _, expression := range sorted(expressions) {
		re := regexp.MustCompile(expression)
		for _, input := range expressions[expression] {
			for _, template := range templates {
				number++
				match := re.FindStringSubmatchIndex(input)
				// Where nothing matches one template is enough; of the rest every fourth, in turns.
				if (match == nil && template != templates[0]) || (match != nil && number%4 != 0) {
					continue
				}
				entry := golden{Regex: expression, Template: template, Input: input}
				if match != nil {
					expanded := string(re.ExpandString(nil, template, input, match))
					entry.Expected = &expanded
				}
				cases = append(cases, entry)
			}
		}
	}
	refused := []string{
		`(?=a)`, `(?!a)`, `(?<=a)`, `(a)\1`, `(`, `)`, `[`, `a**`, `x{1001}`, `\C`, `(?P<ü>x)`, `\8`, `(?>a)`,
		`a++`, `(?P=n)`, `[z-a]`, `\Z`, `(?P<>a)`, `*`,
	}
	for _, expression := range refused {
		if _, err := regexp.Compile(expression); err == nil {
			panic(expression)
		}
	}
	// One case in a line.
	fmt.Printf("{\n \"go\": %s,\n \"refused\": %s,\n \"cases\": [\n", encode(runtime.Version()), encode(refused))
	for index, entry := range cases {
		comma := ","
		if index == len(cases)-1 {
			comma = ""
		}
		fmt.Printf("  %s%s\n", encode(entry), comma)
	}
	fmt.Print(" ]\n}\n")
}

func encode(value any) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSpace(out.String())
}

func sorted(expressions map[string][]string) []string {
	keys := []string{}
	for key := range expressions {
		at := len(keys)
		for at > 0 && keys[at-1] > key {
			at--
		}
		keys = append(keys[:at], append([]string{key}, keys[at:]...)...)
	}
	return keys
}
