// Keeps these programs out of any Go module around them; lib/build.sh compiles them in a module of
// its own, with the versions of lib/settings.sh.
module testcluster

go 1.26
