# Here-documents: expanded, quoted, with tabs removed, large, and as many at once.
name=world
cat <<END
hello $name $((6 * 7))
END
cat <<'END'
hello $name
END
cat <<-END
	tabs are gone
	END
cat <<ONE; cat <<TWO
the first
ONE
the second
TWO
body=$(seq 1 20000)
md5sum <<END
$body
END
