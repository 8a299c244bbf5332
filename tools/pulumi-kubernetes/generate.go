//go:build ignore

// The files that main.go embeds: `go run generate.go MODULE VERSION OUT`, where MODULE is the folder of the provider's Go
// module, writes OUT/schema.json (compact, saying VERSION, as Pulumi's own build does) and OUT/terraform-mapping.json.
package main

import (
	"encoding/json"
	"log"
	"os"
	"path/filepath"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: go run generate.go MODULE VERSION OUT")
	}
	in, version, out := filepath.Join(os.Args[1], "cmd", "pulumi-resource-kubernetes"), os.Args[2], os.Args[3]
	schema := read(in, "schema.json")
	schema["version"] = encode(version)
	write(out, "schema.json", schema)
	write(out, "terraform-mapping.json", read(in, "terraform-mapping.json"))
}

func read(folder, name string) map[string]json.RawMessage {
	text, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		log.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return fields
}

func write(folder, name string, fields map[string]json.RawMessage) {
	if err := os.WriteFile(filepath.Join(folder, name), encode(fields), 0o644); err != nil {
		log.Fatal(err)
	}
}

func encode(value any) json.RawMessage {
	text, err := json.Marshal(value)
	if err != nil {
		log.Fatal(err)
	}
	return text
}
