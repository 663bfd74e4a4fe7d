package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Load reads a configuration: a .hcl file, a folder whose *.hcl files are read
// as if they were one, in the order of their names, or a fleet-router JSON
// file. A file is JSON when its name ends in .json or its text begins with a
// brace. Files that it names (certificates, the ABI) are read as well, relative
// to the working directory; nothing is bound or dialed.
//
// A file may have 1 MiB. The error is an *InvalidError with all problems when
// the content is not valid; otherwise it says which file could not be read.
// Warnings come with a valid and with an invalid configuration.
func Load(path string) (*Config, []Warning, error) {
	sources, err := readSources(path)
	if err != nil {
		return nil, nil, err
	}
	return parse(path, sources)
}

// Parse is Load for a text that was read already. The name decides about the
// language, as Load's path does, and is the file in messages.
func Parse(name string, text []byte) (*Config, []Warning, error) {
	if len(text) > maxFile {
		return nil, nil, fmt.Errorf("the configuration %s has %d bytes; at most %d (1 MiB) are read", name, len(text), maxFile)
	}
	return parse(name, []*source{newSource(name, text, 0)})
}

func readSources(path string) ([]*source, error) {
	paths := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration %s cannot be read: %w", path, cause(err))
	}
	if info.IsDir() {
		if paths, err = hclFiles(path); err != nil {
			return nil, err
		}
	}
	var sources []*source
	for i, p := range paths {
		text, err := readText(p)
		if err != nil {
			return nil, fmt.Errorf("the configuration %w", err)
		}
		sources = append(sources, newSource(p, []byte(text), i))
	}
	return sources, nil
}

// hclFiles are the *.hcl files of a folder. Hidden ones are left out: editors
// keep copies there.
func hclFiles(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("the configuration folder %s cannot be read: %w", folder, cause(err))
	}
	var paths []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == ".hcl" && !strings.HasPrefix(e.Name(), ".") && !e.IsDir() {
			paths = append(paths, filepath.Join(folder, e.Name()))
		}
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("the configuration folder %s has no .hcl file", folder)
	}
	return paths, nil
}

func isJSON(src *source) bool {
	return filepath.Ext(src.name) == ".json" || bytes.HasPrefix(bytes.TrimSpace(src.text), []byte("{"))
}

func parse(path string, sources []*source) (*Config, []Warning, error) {
	d := &decoder{report: &report{}, lang: inHCL, records: map[any]*record{}}
	doc := &document{}
	if len(sources) == 1 && isJSON(sources[0]) {
		d.lang = inJSON
		if n := readJSON(d.report, sources[0]); n != nil {
			jsonRoot.setDefaults(doc, d.lang)
			d.object(jsonRoot, n, doc, "")
			finishJSON(d, doc)
		}
	} else if n := readHCL(d.report, sources); n != nil {
		hclRoot.setDefaults(doc, d.lang)
		d.object(hclRoot, n, doc, "")
		finishHCL(d, doc)
	}
	warnings := inOrder(d.warnings)
	if len(d.problems) > 0 {
		return nil, warnings, &InvalidError{Path: path, Problems: inOrder(d.problems)}
	}
	doc.config.Path = path
	return &doc.config, warnings, nil
}
